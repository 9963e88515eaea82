package redlocktest

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// bubbles is a Tracer that reports the use in a bubble of a Cluster that was made outside. Without it, the runtime
// would end the program, with a stack that leads to a channel deep in the library.
//
// Nothing says whether a goroutine is in a bubble. But the clock of each begins in the year 2000, long before any
// Cluster was made outside of one.
type bubbles struct{ made time.Time } // by the wall clock

const longBefore = 365 * 24 * time.Hour

// check panics, on the goroutine of the caller, before the call has done anything.
func (b bubbles) check() {
	if b.made.Sub(time.Now().Round(0)) > longBefore {
		panic("redlocktest: the Cluster was made outside of the bubble that uses it: call New inside, with the T of the bubble")
	}
}

// Begin is called when a call of the Redlock begins.
func (b bubbles) Begin(ctx context.Context, _ redlock.Op, _ []string) context.Context {
	b.check()
	return ctx
}

func (bubbles) End(context.Context, redlock.Event) {}

func (bubbles) Wants(context.Context, redlock.EventKind) bool { return false }

func (bubbles) Event(context.Context, redlock.Event) {}
