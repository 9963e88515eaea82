// Package dispatch calls a hook with events, one at a time and in order, on a goroutine of its own, so that no sender
// is ever held up. It numbers the calls that events belong to. It does not know what is in an event: a function that it
// is given completes events.
package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// most is how many events may wait.
const most = 4096

// A Dispatcher calls a hook. Its goroutine exists while events wait.
type Dispatcher[E any] struct {
	hook    func(ctx context.Context, e E) // nil: nobody listens
	stamp   func(e *E, now time.Time, call uint64)
	dropped atomic.Int64
	calls   atomic.Uint64 // numbered so far

	mu      sync.Mutex // taken last: Send is called with any other held, and the hook with none
	waiting []hookCall[E]
	running bool
	idle    chan struct{} // closed when running ends; nil while nobody waits for that
}

type hookCall[E any] struct {
	ctx   context.Context //nolint:containedctx // It is carried to the hook, not kept.
	event E
}

// New returns a dispatcher to hook, which may be nil. stamp completes each event, with the number
// of the call that its context belongs to; 0: none.
func New[E any](hook func(ctx context.Context, e E), stamp func(e *E, now time.Time, call uint64)) *Dispatcher[E] {
	return &Dispatcher[E]{hook: hook, stamp: stamp}
}

// Dropped returns how many events were dropped because too many waited.
func (d *Dispatcher[E]) Dropped() int64 { return d.dropped.Load() }

// On reports whether anybody listens to events.
func (d *Dispatcher[E]) On() bool { return d.hook != nil }

type callKey struct{}

// Call returns ctx with a number for a call, which its events get, if somebody listens.
func (d *Dispatcher[E]) Call(ctx context.Context) context.Context {
	if d.hook == nil {
		return ctx
	}
	return context.WithValue(ctx, callKey{}, d.calls.Add(1))
}

// CallOf returns the number of the call that ctx belongs to; 0: none.
func CallOf(ctx context.Context) uint64 {
	call, _ := ctx.Value(callKey{}).(uint64)
	return call
}

// Send queues an event. It never blocks, so it may be called under locks.
func (d *Dispatcher[E]) Send(ctx context.Context, e E) {
	if d.hook == nil {
		return
	}
	d.stamp(&e, time.Now(), CallOf(ctx))
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) >= most {
		d.dropped.Add(1)
		return
	}
	d.waiting = append(d.waiting, hookCall[E]{context.WithoutCancel(ctx), e})
	if !d.running {
		d.running = true
		go d.run()
	}
}

func (d *Dispatcher[E]) run() {
	var calls []hookCall[E]
	ended := false
	defer func() {
		if !ended {
			// The hook has ended its goroutine (testing's FailNow does). Another goroutine goes on with the rest. A
			// panic ends the process nevertheless.
			d.mu.Lock()
			d.waiting = append(calls, d.waiting...)
			d.mu.Unlock()
			go d.run()
		}
	}()
	for {
		d.mu.Lock()
		calls, d.waiting = d.waiting, nil
		if len(calls) == 0 {
			d.running = false
			if d.idle != nil {
				close(d.idle)
				d.idle = nil
			}
			ended = true
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
		for len(calls) > 0 {
			c := calls[0]
			calls = calls[1:]
			d.hook(c.ctx, c.event)
		}
	}
}

// Drain waits until every event has been delivered, or for ctx.
func (d *Dispatcher[E]) Drain(ctx context.Context) {
	d.mu.Lock()
	if !d.running {
		d.mu.Unlock()
		return
	}
	if d.idle == nil {
		d.idle = make(chan struct{})
	}
	idle := d.idle
	d.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
