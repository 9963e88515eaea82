package testkit

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// An ExampleTB is what redlocktest.New needs of a test, for examples. They have none.
type ExampleTB struct {
	testing.TB

	cleanups []func()
}

// Helper does nothing.
func (*ExampleTB) Helper() {}

// Cleanup has [ExampleTB.End] call a function.
func (t *ExampleTB) Cleanup(fn func()) { t.cleanups = append(t.cleanups, fn) }

// End calls the functions. Where nobody calls it, the cluster ends with the process.
func (t *ExampleTB) End() {
	for _, fn := range slices.Backward(t.cleanups) {
		fn()
	}
}

// Context is one that does not end.
func (*ExampleTB) Context() context.Context { return context.Background() }

// Errorf panics.
func (*ExampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Fatalf panics.
func (*ExampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
