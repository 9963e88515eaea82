package client

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"github.com/seed6c881748/redlock/proof/chaos/monotime"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// A Recorder tells the observer what happens. It writes each event at once, so that what was told is known even if
// the process is killed. Clients of other libraries have one, too.
type Recorder struct {
	Clock monotime.Clock // of the run

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
	r := &Recorder{Clock: monotime.Since(cfg.Start), client: cfg.Client, quiet: cfg.Quiet, conn: conn, stalls: make(chan stall, 1024)}
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
