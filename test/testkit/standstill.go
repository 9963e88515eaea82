package testkit

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A Standstill is a tracer that has its process stand still for so long when it has got a lock.
type Standstill time.Duration

// Begin does nothing.
func (Standstill) Begin(ctx context.Context, _ redlock.Op, _ []string) context.Context { return ctx }

// End stands still.
func (s Standstill) End(_ context.Context, e redlock.Event) {
	if e.Kind == redlock.EventAcquired {
		time.Sleep(time.Duration(s))
	}
}

// Wants says no.
func (Standstill) Wants(context.Context, redlock.EventKind) bool { return false }

// Event is not called.
func (Standstill) Event(context.Context, redlock.Event) {}
