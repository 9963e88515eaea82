package client

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// A Recorder tells the observer what happens. It writes each event at once, so that what was told is known even if
// the process is killed. Clients of other libraries have one, too.
type Recorder struct {
	Clock history.Clock // of the run

	client string
	quiet  bool
	stalls chan stall

	mu      sync.Mutex
	conn    net.Conn
	answers []chan history.Event // In the order of the requests.
	err     error
}

// NewRecorder connects to the observer of the configuration.
func NewRecorder(cfg protocol.Config) (*Recorder, error) {
	conn, err := net.Dial("tcp", cfg.Observer)
	if err != nil {
		return nil, fmt.Errorf("client: no observer: %w", err)
	}
	r := &Recorder{Clock: history.ClockFrom(cfg.Start), client: cfg.Client, quiet: cfg.Quiet, conn: conn, stalls: make(chan stall, 1024)}
	go r.receive()
	return r, nil
}

// Log tells of an event, as of now if it has no time.
func (r *Recorder) Log(e history.Event) {
	if r.quiet && e.Kind != history.Sample {
		return
	}
	begin := r.Clock.Now()
	e.At = cmp.Or(e.At, begin)
	r.mu.Lock()
	r.send(e)
	r.mu.Unlock()
	if end := r.Clock.Now(); end-begin >= int64(stalled) && e.Fault == "" {
		r.stall(stall{begin, end})
	}
}

// send needs the lock.
func (r *Recorder) send(e history.Event) {
	e.Client = r.client
	if e.At == 0 {
		e.At = r.Clock.Now()
	}
	if _, err := r.conn.Write(protocol.Line(e)); err != nil {
		r.err = err
	}
}

// failed says why something was not told, if that is so.
func (r *Recorder) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		return nil
	}
	return fmt.Errorf("client: no observer: %w", r.err)
}

// Ask has the observer carry out an operation on a register, and returns it with the answer. It is not OK if there
// is no observer any more.
func (r *Recorder) Ask(e history.Event) history.Event {
	if e.OK = r.quiet; e.OK {
		return e
	}
	answer := make(chan history.Event, 1)
	r.mu.Lock()
	if r.err != nil {
		r.mu.Unlock()
		return e
	}
	r.answers = append(r.answers, answer)
	r.send(e)
	r.mu.Unlock()
	return <-answer
}

// receive hands out the answers until the connection ends.
func (r *Recorder) receive() {
	lines := bufio.NewScanner(r.conn)
	for lines.Scan() {
		var e history.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			break
		}
		r.mu.Lock()
		to := r.answers[0]
		r.answers = r.answers[1:]
		r.mu.Unlock()
		to <- e
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = net.ErrClosed
	for _, to := range r.answers {
		to <- history.Event{}
	}
	r.answers = nil
}

const (
	// tick is how often a process sees that it runs.
	tick = 5 * time.Millisecond
	// stalled is the least time without a tick that is told.
	stalled = 20 * time.Millisecond
)

// A stall is a time in which this process did not run, or a worker waited for the observer.
type stall struct{ from, to int64 }

// findStalls looks at the clock again and again, and does nothing else: whoever writes may be held up by that, and would
// not see that the process is.
func (r *Recorder) findStalls() {
	last := r.Clock.Now()
	for range time.Tick(tick) {
		now := r.Clock.Now()
		if now-last >= int64(stalled) {
			r.stall(stall{last, now})
		}
		last = now
	}
}

// stall notes one, and never waits. Should there be too many to tell, the rest is not excused.
func (r *Recorder) stall(s stall) {
	select {
	case r.stalls <- s:
	default:
	}
}

// tellStalls tells of each, as on a machine that is busy: what the process does late because of that is no fault of the
// library.
func (r *Recorder) tellStalls() {
	for s := range r.stalls {
		r.Log(history.Event{At: s.from, Kind: history.FaultBegin, Fault: history.Stall})
		r.Log(history.Event{At: s.to, Kind: history.FaultEnd, Fault: history.Stall})
	}
}

// sample tells how much the process uses. Of the heap it is MB, in use after a collection.
func (c *client) sample(tick int64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const mega = 1 << 20
	c.rec.Log(history.Event{Kind: history.Sample, Value: tick, Figures: map[string]float64{
		"locks": float64(c.lib.Stats().Acquired), "goroutines": float64(runtime.NumGoroutine()),
		"heap": float64(m.HeapAlloc) / mega,
	}})
}
