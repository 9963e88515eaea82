package redlockcheck_test

import (
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testkit"
)

// nodes are those of the examples, in memory.
var nodes = redlocktest.New(&testkit.ExampleTB{}, 3, redlock.WithNodeTimeout(10*time.Second)).Nodes()
