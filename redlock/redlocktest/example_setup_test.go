package redlocktest_test

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// What the examples use and do not make themselves. It is in a file of its own, as godoc would
// otherwise show it with each of them.
var (
	ctx = context.Background()

	// t is the T of the test that an example stands for. Its cleanups run at the end.
	t = &exampleTB{}
)

func TestMain(m *testing.M) {
	status := m.Run()
	for _, fn := range t.cleanups {
		fn()
	}
	os.Exit(status)
}

// exampleTB is what package redlocktest needs of a test.
type exampleTB struct {
	testing.TB

	cleanups []func()
}

func (*exampleTB) Helper() {}

func (t *exampleTB) Cleanup(fn func()) { t.cleanups = append([]func(){fn}, t.cleanups...) }

func (*exampleTB) Context() context.Context { return context.Background() }

func (*exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (*exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
