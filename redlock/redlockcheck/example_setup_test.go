package redlockcheck_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// nodes are those of the examples, in memory.
var nodes = redlocktest.New(exampleTB{}, 3, redlock.WithNodeTimeout(10*time.Second)).Nodes()

// exampleTB is what redlocktest.New needs of a test. It ends with the process: so does the cluster.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper() {}

func (exampleTB) Cleanup(func()) {}

func (exampleTB) Context() context.Context { return context.Background() }

func (exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
