package testkit

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// TracerFuncs is a tracer of functions. One that is nil does nothing, and wants nothing.
type TracerFuncs struct {
	OnBegin func(op redlock.Op)
	OnWants func(kind redlock.EventKind) bool
	OnEnd   func(e redlock.Event)
	OnEvent func(e redlock.Event)
}

// Begin implements [redlock.Tracer], as the others do.
func (f TracerFuncs) Begin(ctx context.Context, op redlock.Op, _ []string) context.Context {
	if f.OnBegin != nil {
		f.OnBegin(op)
	}
	return ctx
}

// Wants asks the function.
func (f TracerFuncs) Wants(_ context.Context, kind redlock.EventKind) bool {
	return f.OnWants != nil && f.OnWants(kind)
}

// End tells the function.
func (f TracerFuncs) End(_ context.Context, e redlock.Event) {
	if f.OnEnd != nil {
		f.OnEnd(e)
	}
}

// Event tells the function.
func (f TracerFuncs) Event(_ context.Context, e redlock.Event) {
	if f.OnEvent != nil {
		f.OnEvent(e)
	}
}

// Standstill returns a tracer that has its process stand still for so long when it has got a lock.
func Standstill(d time.Duration) redlock.Tracer {
	return TracerFuncs{OnEnd: func(e redlock.Event) {
		if e.Kind == redlock.EventAcquired {
			time.Sleep(d)
		}
	}}
}
