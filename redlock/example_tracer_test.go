package redlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// printer is a tracer that prints how calls begin and end. Package otelredlock has one that makes
// traces and metrics.
type printer struct{}

func (printer) Begin(ctx context.Context, op redlock.Op, resources []string) context.Context {
	fmt.Println(op, "begins:", resources)
	return ctx // Or one with a span.
}

func (printer) End(_ context.Context, e redlock.Event) {
	fmt.Println(e.Op, "ends") // After e.Took, with e.Err.
}

func (printer) Wants(context.Context, redlock.EventKind) bool { return false }

func (printer) Event(context.Context, redlock.Event) {}

func ExampleWithTracer() {
	r, err := redlock.New(nodes, redlock.WithTracer(printer{}))
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close(ctx)
	lock, err := r.Lock(ctx, []string{"traced"}, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	_ = lock.Unlock(ctx)
	// Output:
	// lock begins: [traced]
	// lock ends
	// unlock begins: [traced]
	// unlock ends
}
