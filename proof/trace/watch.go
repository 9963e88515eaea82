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
	// again is how long it takes until a server is connected to anew, and limit is for connecting, and for the last ping.
	again = 20 * time.Millisecond
	limit = 2 * time.Second
	// behind is how many lines may wait to be read. Who reads more slowly gives up the connection: otherwise the server's
	// buffer would grow.
	behind = 1 << 16
	// tardy is how long no server takes to answer that runs.
	tardy = 250 * time.Millisecond
	// rate is by how much a server's clock may be fast or slow.
	rate = 0.01
)

// A Watcher follows servers.
type Watcher struct {
	// Nodes are URLs: redis://user:password@host:port/0, or rediss.
	Nodes []string
	// Prefix is what the names of keys begin with that are followed.
	Prefix string
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
	for i, url := range w.Nodes {
		all.Go(func() {
			n := &node{Watcher: w, number: i, url: url, nonce: rand.Text()}
			n.keys = keys{prefix: w.Prefix, step: n.tell, read: n.read, all: make(map[string]*key), counts: make(map[string]int64), lines: make(map[string]*waiting)}
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
	url     string
	nonce   string // Is in its pings, so that they are known.
	gap     string // Why nothing is seen, as it was told; "": something is.
	monitor redis.Conn
	reader  redis.Conn // For pings, and to read keys.
	client  string     // The reader's name in MONITOR.
	sent    []int64    // When pings were sent that have not been seen.
	reading []string   // What is being read.
	answers chan []any

	got        int64 // When this line was.
	ping, seen int64 // When the last ping that was seen was sent, and its stamp.
}

// watch follows the server, over one connection after another.
func (n *node) watch(ctx context.Context) {
	for {
		n.got = n.Now()
		err := n.connect()
		if err == nil {
			err = n.follow(ctx)
		}
		if n.monitor != nil {
			_ = n.monitor.Close()
		}
		if n.reader != nil {
			_ = n.reader.Close()
		}
		if err == nil {
			return // All is told.
		}
		if n.gap != err.Error() {
			n.gap = err.Error()
			n.Told(history.Event{At: n.got, Op: history.StepGap, Node: &n.number, Detail: n.gap})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
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

// tell stamps a step of the line that was read.
func (n *node) tell(e history.Event) {
	e.At, e.From, e.Node = n.got, n.ping, &n.number
	if since := n.ping + int64(float64(n.last-n.seen)*(1-rate)); since > n.ping && since <= n.got {
		e.From = since // Unless a clock was set.
	}
	n.Told(e)
}

var runID = regexp.MustCompile(`run_id:([0-9a-f]+)`)

// connect begins to follow the server. The keys that somebody had are read.
func (n *node) connect() (err error) {
	n.monitor, n.reader, n.client, n.sent, n.reading = nil, nil, "", nil, nil
	dial := func() (redis.Conn, error) {
		return redis.DialURL(n.url, redis.DialConnectTimeout(limit), redis.DialWriteTimeout(limit))
	}
	if n.monitor, err = dial(); err != nil {
		return err
	}
	if n.reader, err = dial(); err != nil {
		return err
	}
	n.ping, n.seen = n.Now(), 0
	if _, err = redis.DoWithTimeout(n.monitor, limit, "MONITOR"); err != nil {
		return fmt.Errorf("MONITOR is refused, or not answered: %w", err)
	}
	if _, err = redis.DoWithTimeout(n.reader, limit, "PING"); err != nil {
		return err // It still loads its data, which INFO does not mind.
	}
	info, err := redis.String(redis.DoWithTimeout(n.reader, limit, "INFO", "server"))
	if err != nil {
		return err
	}
	n.gap = ""
	e := history.Event{At: n.Now(), Op: history.StepWatch, Node: &n.number}
	if run := runID.FindStringSubmatch(info); run != nil {
		e.Detail = run[1]
	}
	n.Told(e)
	n.answers = make(chan []any, behind)
	go receive(n.reader, n.answers)
	n.send() // Its line tells what the reader is called.
	for _, name := range n.forget() {
		n.lose(name, n.all[name])
	}
	return nil
}

// receive takes the answers of the reader: those to EXEC, which are what keys are.
func receive(c redis.Conn, answers chan<- []any) {
	defer close(answers)
	for {
		reply, err := redis.ReceiveWithTimeout(c, 0)
		if err != nil {
			_ = c.Close()
			return
		}
		if values, ok := reply.([]any); ok {
			answers <- values
		}
	}
}

// A stamped line is one that came at a time.
type stamped struct {
	line
	got int64
	err error
}

var errBehind = errors.New("it was read too slowly, and the connection was given up")

// hear reads the lines of MONITOR.
func (n *node) hear(c redis.Conn, lines chan<- stamped) {
	defer close(lines)
	for {
		text, err := redis.String(redis.ReceiveWithTimeout(c, 0))
		s := stamped{got: n.Now(), err: err}
		if err == nil {
			s.line, s.err = parse(text)
		}
		select {
		case lines <- s:
		default:
			_ = c.Close()
			return
		}
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
	ticks := time.NewTicker(pinged)
	defer ticks.Stop()
	end := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case s, ok := <-lines:
			if !ok {
				return errBehind
			}
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

// send sends a ping.
func (n *node) send() {
	n.sent = append(n.sent, n.Now())
	_ = n.reader.Send("ECHO", n.nonce)
	_ = n.reader.Flush()
}

// read has a key read.
func (n *node) read(name string) {
	n.reading = append(n.reading, name)
	_ = n.reader.Send("MULTI")
	_ = n.reader.Send("GET", name)
	_ = n.reader.Send("PTTL", name)
	_ = n.reader.Send("EXEC")
	_ = n.reader.Flush()
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
	case own && l.args[0] == "PTTL" && len(n.reading) > 0:
		name := n.reading[0]
		n.reading = n.reading[1:]
		select {
		case values, ok := <-n.answers:
			if !ok || len(values) != 2 {
				return errors.New("a key could not be read")
			}
			n.hasRead(name, values)
		case <-time.After(limit):
			return errors.New("a key was not read in time")
		}
	}
	return nil
}

func (n *node) hasRead(name string, values []any) {
	left, _ := values[1].(int64)
	switch value := values[0].(type) {
	case []byte:
		text := string(value)
		n.found(name, &text, left)
	default: // Nothing, or an error: it is no string.
		n.found(name, nil, left)
	}
}
