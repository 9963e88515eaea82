package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// What the examples use and do not make themselves. It is in a file of its own, as godoc would
// otherwise show it with each of them.
var (
	ctx = context.Background()

	// cluster has five Redis servers in memory. A program has addresses of real ones. On a busy
	// machine they may take long to answer.
	cluster = redlocktest.New(exampleTB{}, 5, redlock.WithNodeTimeout(10*time.Second))

	// nodes are those of the cluster; see ExampleNewNode for others.
	nodes = cluster.Nodes()

	// r is a Redlock over the nodes, as New returns it; other is that of another process.
	r, other = cluster.Redlock, cluster.NewRedlock()
)

// exampleTB is what redlocktest.New needs of a test. It ends with the process: so does the cluster.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper() {}

func (exampleTB) Cleanup(func()) {}

func (exampleTB) Context() context.Context { return context.Background() }

func (exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
