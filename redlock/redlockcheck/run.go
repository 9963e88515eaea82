package redlockcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/redlock"
)

// Run checks the nodes for clients that are made with the same nodes and options. Of the options,
// only prefix, node timeout, fencing, polling and quarantine matter; others are allowed.
//
// It asks every node, on a connection that it borrows; the node's pool must have one to spare.
// It waits for all of them, but no longer than eight node timeouts or one second, whichever is
// more. It takes no lock. To find out what the user may do it sets two keys and deletes them in
// the same script: one in the reserved key space, and one outside of it with a random name, as a
// resource's is. What a server does not tell this client is unknown, not an error; a server with
// ACLs may log the refusal.
//
// The error is nil unless New would refuse the nodes or the options, or ctx ends first: nodes that
// cannot be reached are in the report.
func Run(ctx context.Context, nodes []redlock.Node, opts ...redlock.Option) (Report, error) {
	if ctx == nil {
		return Report{}, errors.New("redlock: nil context")
	}
	r, err := redlock.New(nodes, opts...) // It connects to nothing.
	if err != nil {
		return Report{}, err
	}
	s := &survey{Settings: settings.Of(r), nodes: make([]facts, len(nodes))}
	_ = r.Close(ctx)
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { s.nodes[i] = s.gather(ctx, n) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("redlock: check: %w", err)
	}
	return s.report(), nil
}

// A survey is everything that the findings depend on.
type survey struct {
	settings.Settings

	nodes []facts
}

// key returns a key that the check may set and delete.
func (s *survey) key() string { return s.Space + "check" }

// channel returns a channel that nobody listens on.
func (s *survey) channel() string { return s.Space + lines.ChannelMark + "check" }

// marker returns the key of a node's quarantine marker, even if this client has no quarantine.
func (s *survey) marker() string { return s.Space + quarantine.Mark }
