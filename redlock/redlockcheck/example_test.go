package redlockcheck_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
)

var ctx = context.Background()

// Whether the nodes are fit, at the start of a program. doc.go has the same.
func Example() {
	opts := []redlock.Option{redlock.WithPrefix("locks:"), redlock.WithFencing()}
	report, err := redlockcheck.Run(ctx, nodes, opts...)
	if err != nil {
		log.Fatal(err)
	}
	if report.Verdict() == redlockcheck.Unfit {
		log.Fatal(report) // Says which node, why, and what to do.
	}

	r, err := redlock.New(nodes, opts...)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = r.Close(ctx) }()
	fmt.Println(len(report.Nodes), "nodes")
	// Output: 3 nodes
}
