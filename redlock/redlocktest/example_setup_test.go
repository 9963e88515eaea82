package redlocktest_test

import (
	"context"
	"os"
	"testing"

	"github.com/seed6c881748/redlock/test/testkit"
)

// What the examples use and do not make themselves. It is in a file of its own, as godoc would
// otherwise show it with each of them.
var (
	ctx = context.Background()

	// t is the T of the test that an example stands for. Its cleanups run at the end.
	t = &testkit.ExampleTB{}
)

func TestMain(m *testing.M) {
	status := m.Run()
	t.End()
	os.Exit(status)
}
