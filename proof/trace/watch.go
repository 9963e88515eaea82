// Package trace watches what nodes do with locks. It reads MONITOR of each server, and says of each change of a key which
// step it was: a lock, an extension, a release, an expiry. A change that none of these explains is odd.
//
// It knows no library, writes nothing, and shows digests of values only, and of keys that are used for locks.
package trace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/proof/history"
)

const (
	// pinged is how often a server is pinged. What it carries out after a ping was carried out after that was sent; and
	// while nothing else comes, pings say how late it is by the server's clock.
	pinged = 50 * time.Millisecond
	// again is how long it takes until a server is connected to anew, doubled to seldom each time that it fails. limit is for
	// connecting, for an answer, and for the last ping.
	again  = 20 * time.Millisecond
	seldom = time.Second
	limit  = 2 * time.Second
	// behind is how many lines may wait to be read.
	behind = 1 << 16
	// atOnce is how many keys are read at a time.
	atOnce = 1000
	// tardy is how long no server takes to answer that runs.
	tardy = 100 * time.Millisecond
	// rate is by how much a server's clock may be fast or slow.
	rate = 0.01
)

// A Watcher follows servers.
type Watcher struct {
	// Nodes are addresses.
	Nodes []string
	// Now is the time by which steps are stamped, in ns.
	Now func() int64
	// Step is told of each step, one at a time.
	Step func(history.Event)

	mu sync.Mutex
}

// Watch follows the servers until the context ends, and until all that was carried out before is told. While a server cannot
// be reached, or does not allow MONITOR, that is told as a gap.
func (w *Watcher) Watch(ctx context.Context) {
	var all sync.WaitGroup
	for i, addr := range w.Nodes {
		all.Go(func() {
			n := &node{Watcher: w, number: i, addr: addr, nonce: rand.Text() + `"\`} // A server that does not escape that is seen.
			n.keys = newKeys(n.tell, n.read)
			n.watch(ctx)
		})
	}
	all.Wait()
}

// A node is one server.
type node struct {
	*Watcher
	keys
	number  int
	addr    string
	nonce   string // Is in its pings, so that they are known.
	gap     string // Why nothing is seen, as it was told; "": something is.
	monitor redis.Conn
	reader  redis.Conn  // For pings, and to read keys.
	client  string      // The reader's name in MONITOR.
	sent    []int64     // When pings were sent that have not been seen.
	wanted  []string    // Keys that are to be read.
	reading int         // How many are being read.
	asked   chan string // What the reader was asked: names of keys, "" for pings.
	answers chan answer

	got        int64 // When this line was.
	ping, seen int64 // When the last ping that was seen was sent, and its stamp.
	pinged     int64 // When the last one was sent.
}

// watch follows the server, over one connection after another.
func (n *node) watch(ctx context.Context) {
	for pause := again; ; pause = min(2*pause, seldom) {
		n.got = n.Now()
		err := n.connect(ctx)
		if err == nil {
			pause = again
			err = n.follow(ctx)
		}
		for _, c := range []redis.Conn{n.monitor, n.reader} {
			if c != nil {
				_ = c.Close()
			}
		}
		if err == nil {
			return // All is told.
		}
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // Without the port, which is another one each time.
		}
		if n.gap != err.Error() {
			n.gap = err.Error()
			n.Told(history.Event{At: n.got, Op: history.StepGap, Node: &n.number, Detail: n.gap})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Told passes on a step.
func (w *Watcher) Told(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Kind = history.Step
	w.Step(e)
}

// tell stamps a step of the line that was read. Of an expiry, the key was there until its From, by the server's clock.
func (n *node) tell(e history.Event) {
	by := n.last
	if e.Op == history.StepExpire {
		by = min(by, e.From)
	}
	e.At, e.From, e.Node = n.got, n.ping, &n.number
	switch since := n.ping + int64(float64(by-n.seen)*(1-rate)); {
	case by < n.seen:
		e.From += int64(float64(by-n.seen) * (1 + 2*rate))
	case since <= n.got: // Unless a clock was set.
		e.From = since
	}
	n.Told(e)
}

var runID = regexp.MustCompile(`run_id:([0-9a-f]+)`)

// connect begins to follow the server. The keys that somebody had are read.
func (n *node) connect(ctx context.Context) error {
	n.monitor, n.reader, n.client, n.sent, n.wanted, n.reading, n.pinged = nil, nil, "", nil, nil, 0, 0
	dial := func() (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", n.addr, redis.DialConnectTimeout(limit), redis.DialReadTimeout(limit), redis.DialWriteTimeout(limit))
	}
	var err error
	if n.monitor, err = dial(); err != nil {
		return err
	}
	if n.reader, err = dial(); err != nil {
		return err
	}
	n.ping, n.seen = n.Now(), 0
	if _, err = n.monitor.Do("MONITOR"); err != nil {
		return fmt.Errorf("MONITOR is refused, or not answered: %w", err)
	}
	if _, err = n.reader.Do("PING"); err != nil {
		return err // It still loads its data, which INFO does not mind.
	}
	info, err := redis.String(n.reader.Do("INFO"))
	if err != nil {
		return err
	}
	n.gap = ""
	e := history.Event{At: n.Now(), Op: history.StepWatch, Node: &n.number}
	if run := runID.FindStringSubmatch(info); run != nil {
		e.Detail = run[1]
	}
	n.Told(e)
	n.asked, n.answers = make(chan string, behind), make(chan answer, behind)
	go receive(n.reader, n.asked, n.answers)
	n.send() // Its line tells what the reader is called.
	n.reread()
	return nil
}

// An answer is what a key was: its value and its end; nil if it may not be read.
type answer struct {
	name   string
	values []any
}

// receive takes the answers of the reader, to what it was asked.
func receive(c redis.Conn, asked <-chan string, answers chan<- answer) {
	defer close(answers)
	for name := range asked {
		replies := 1
		if name != "" {
			replies = 4 // Of MULTI, two commands, and EXEC.
		}
		var last any
		var err error
		for range replies {
			if last, err = redis.ReceiveWithTimeout(c, 0); err != nil && c.Err() != nil {
				return
			}
		}
		if values, _ := last.([]any); name != "" {
			answers <- answer{name, values}
		}
	}
}

// A stamped line is one that came at a time.
type stamped struct {
	line
	got int64
	err error
}

// hear reads the lines of MONITOR.
func (n *node) hear(c redis.Conn, lines chan<- stamped) {
	for {
		text, err := redis.String(redis.ReceiveWithTimeout(c, 0))
		s := stamped{got: n.Now(), err: err}
		if err == nil {
			s.line, s.err = parse(text)
		}
		lines <- s
		if s.err != nil {
			_ = c.Close()
			return
		}
	}
}

// follow takes lines until the context ends, and then those before a last ping; or until the connection ends.
func (n *node) follow(ctx context.Context) error {
	lines := make(chan stamped, behind)
	go n.hear(n.monitor, lines)
	defer close(n.asked)
	ticks := time.NewTicker(pinged)
	defer ticks.Stop()
	end := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case s := <-lines:
			if s.err != nil {
				return s.err
			}
			n.got = s.got
			if err := n.take(s.line); err != nil {
				return err
			}
			if end == nil && len(n.sent) == 0 {
				return nil
			}
		case <-ticks.C:
			n.send()
		case <-end:
			n.send()
			ticks.Stop()
			end, late = nil, time.After(limit)
		case <-late:
			return fmt.Errorf("the last ping was not answered")
		}
		if err := n.reader.Err(); err != nil {
			return err
		}
	}
}

// send sends a ping. If that is late, this process did not run.
func (n *node) send() {
	now := n.Now()
	if n.pinged > 0 && now-n.pinged > int64(pinged+tardy) {
		n.Told(history.Event{From: n.pinged, At: now, Op: history.StepLate, Node: &n.number})
	}
	n.sent, n.pinged = append(n.sent, now), now
	n.ask("", "ECHO", n.nonce)
}

// read has a key read.
func (n *node) read(name string) {
	n.wanted = append(n.wanted, name)
	n.more()
}

// more has keys read that are to be.
func (n *node) more() {
	for len(n.wanted) > 0 && n.reading < atOnce {
		name := n.wanted[0]
		n.wanted = n.wanted[1:]
		n.reading++
		_ = n.reader.Send("MULTI")
		_ = n.reader.Send("GET", name)
		_ = n.reader.Send("PTTL", name)
		n.ask(name, "EXEC")
	}
}

// ask sends what was asked for.
func (n *node) ask(name, command string, args ...any) {
	_ = n.reader.Send(command, args...)
	_ = n.reader.Flush()
	n.asked <- name
}

// take follows a line. Its own are pings, and reads of keys, whose answers are true at that line.
func (n *node) take(l line) error {
	own := n.client != "" && l.client == n.client
	n.carry(l)
	switch {
	case l.args[0] == "ECHO" && l.args[1] == n.nonce && len(n.sent) > 0:
		n.db, n.client, n.ping, n.seen, n.sent = l.db, l.client, n.sent[0], l.at, n.sent[1:]
		if n.got-n.ping > int64(tardy) {
			n.tell(history.Event{Op: history.StepLate})
		}
		n.sweep()
	case own && l.args[0] == "PTTL" && n.reading > 0:
		return n.took()
	}
	return nil
}

// took takes the answer to the key that was read at this line. Keys that may not be read have no line.
func (n *node) took() error {
	for {
		select {
		case a, ok := <-n.answers:
			if !ok {
				return errors.New("a key could not be read")
			}
			if n.reading--; len(a.values) == 2 {
				n.hasRead(a.name, a.values)
				n.more()
				return nil
			}
			if x := n.all[a.name]; x != nil { // A server without memory has refused it. It is tried again when it is used next.
				x.asked = false
			}
		case <-time.After(limit):
			return errors.New("a key was not read in time")
		}
	}
}

func (n *node) hasRead(name string, values []any) {
	left, _ := values[1].(int64)
	var value *string
	if values[0] != nil {
		text, _ := redis.String(values[0], nil) // "" if it is no string.
		value = &text
	}
	n.found(name, value, left)
}
