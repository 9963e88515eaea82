// Package observer writes the history of a run, and keeps the register that critical sections write.
// It knows nothing of the library: it gets lines of JSON from whoever connects.
package observer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// An Observer gets events over TCP, and writes them as they come.
type Observer struct {
	clock history.Clock
	seen  func(history.Event)

	mu        sync.Mutex
	out       *bufio.Writer
	registers map[string]*register
	conns     map[net.Conn]struct{}
	closed    bool
	err       error

	listener net.Listener // Nil before Listen.
	wg       sync.WaitGroup
}

// A register has a value and the highest fence that it has seen.
type register struct{ value, fence int64 }

// New returns an observer of a run that began at start, by CLOCK_MONOTONIC. It writes to w, and calls seen with
// each event, one at a time.
func New(w io.Writer, start int64, seen func(history.Event)) *Observer {
	return &Observer{
		clock: history.ClockFrom(start), seen: seen, out: bufio.NewWriter(w),
		registers: make(map[string]*register), conns: make(map[net.Conn]struct{}),
	}
}

// Listen accepts clients over TCP, and returns where.
func (o *Observer) Listen() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("observer: %w", err)
	}
	o.listener = ln
	o.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				time.Sleep(time.Millisecond) // No file descriptors are left for now.
				continue
			}
			o.wg.Go(func() { o.serve(conn) })
		}
	})
	return ln.Addr().String(), nil
}

// Now is the present moment of the run.
func (o *Observer) Now() int64 { return o.clock.Now() }

// Log writes an event of the conductor's own, and stamps it if it has no time.
func (o *Observer) Log(e history.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.At == 0 {
		e.At = o.clock.Now()
	}
	o.write(e)
}

// write needs the lock.
func (o *Observer) write(e history.Event) {
	if _, err := o.out.Write(protocol.Line(e)); err != nil && o.err == nil {
		o.err = fmt.Errorf("observer: %w", err)
	}
	o.seen(e)
}

// serve takes the events of one client until its connection ends.
func (o *Observer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if !o.keep(conn) {
		return
	}
	err := o.hear(conn)
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
	if o.err == nil {
		o.err = err
	}
}

// hear takes events until the connection ends. The error says that some could not be read. The last line of a process
// that was killed may be half of one: that is none.
func (o *Observer) hear(conn net.Conn) error {
	err := history.Each(conn, func(e history.Event) {
		if answer := o.take(e); answer != nil {
			_, _ = conn.Write(answer) // A client that is gone needs none, and may have said more before.
		}
	})
	if broken := (*net.OpError)(nil); err == nil || errors.As(err, &broken) {
		return nil
	}
	return fmt.Errorf("observer: %w", err)
}

// Drain waits until all that clients have said is written. They must have ended, so that their connections do.
func (o *Observer) Drain(patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		o.mu.Lock()
		connected := len(o.conns)
		o.mu.Unlock()
		if connected == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("observer: %d clients are still connected", connected)
		}
	}
}

func (o *Observer) keep(conn net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conns[conn] = struct{}{}
	return !o.closed
}

// take logs an event of a client, and returns the answer to one that is a request.
func (o *Observer) take(e history.Event) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	if e.Kind != history.Read && e.Kind != history.Write {
		o.write(e)
		return nil
	}
	o.operate(&e)
	o.write(e)
	return protocol.Line(e)
}

// operate reads or writes the register of the event's resource, if its fence is not behind.
func (o *Observer) operate(e *history.Event) {
	if len(e.Resources) != 1 {
		return
	}
	r := o.registers[e.Resources[0]]
	if r == nil {
		r = &register{}
		o.registers[e.Resources[0]] = r
	}
	if e.OK = e.Fence == 0 || e.Fence >= r.fence; e.OK {
		r.fence = max(r.fence, e.Fence)
		if e.Kind == history.Write {
			r.value = e.Value
		}
		e.Value = r.value
	}
	e.End = o.clock.Now()
}

// LogRegisters writes what all registers hold.
func (o *Observer) LogRegisters() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.registers)) {
		r := o.registers[name]
		o.write(history.Event{At: o.clock.Now(), Kind: history.Register, Resources: []string{name}, Value: r.value, Fence: r.fence})
	}
}

// Close ends all connections and flushes what was written. The error is the first one of all writes.
func (o *Observer) Close() error {
	if o.listener != nil {
		_ = o.listener.Close()
	}
	o.mu.Lock()
	o.closed = true
	for conn := range o.conns {
		_ = conn.Close()
	}
	err := errors.Join(o.err, o.out.Flush())
	o.mu.Unlock()
	o.wg.Wait()
	return err
}
