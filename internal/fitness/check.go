// Package fitness finds out whether Redis servers are fit to be the nodes of a Redlock: what
// is asked of them, and what the answers mean. It knows INFO, ACLs, clocks, and which commands
// the library needs. It takes no lock and knows none, and its findings change nothing in the
// library.
package fitness

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Check asks all nodes at the same time, each for no longer than eight node timeouts or one
// second, whichever is more, or until ctx ends, and evaluates the answers. A node that does
// not answer is a finding.
func Check(ctx context.Context, s *Setup, nodes []Node) Report {
	all := make([]facts, len(nodes))
	var g errgroup.Group
	for i := range nodes {
		g.Go(func() error {
			all[i] = s.gather(ctx, &nodes[i])
			return nil
		})
	}
	_ = g.Wait()
	return s.evaluate(all)
}
