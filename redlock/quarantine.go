package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed6c881748/redlock/internal/node"
)

// Admit ends the quarantine of the named nodes and has them adopt this client's number of nodes
// and maxTTL, also a maxTTL that is smaller than what they have heard of. From then on they
// grant locks. It is for an operator who knows that no lock is held that those nodes have
// forgotten: for a new cluster, after a restart of a node that keeps its data, or after a change
// of the number of nodes; see docs/operations.md. Admitted too early, a node can let a second
// holder in. A larger maxTTL takes no Admit.
//
// The nodes are given by their names; there is no way to say "all". The call fails before any
// I/O if a name is none of New's, if none is given, or without WithQuarantine. Otherwise it asks
// every named node, and waits up to twice the node timeout.
//
// nil means that all of them have done it. The error names those that have not, or that did not
// say so; the call may be repeated. It also matches the context's error, if that ended first; it
// is ErrClosed after Close. A node is admitted only in the run of its server in which Admit has
// met it, also if the node carries out the request late.
func (r *Redlock) Admit(ctx context.Context, nodes ...string) error {
	if err := r.misused(ctx); err != nil {
		return err
	}
	if r.defaults.quarantine == 0 {
		return errors.New("redlock: admit: the Redlock has no WithQuarantine")
	}
	if len(nodes) == 0 {
		return errors.New("redlock: admit: no nodes")
	}
	named := make([]*node.Node, len(nodes))
	for i, name := range nodes {
		at := slices.IndexFunc(r.nodes, func(n *node.Node) bool { return n.Name == name })
		if at < 0 {
			return fmt.Errorf("redlock: admit: no node is named %q", name)
		}
		named[i] = r.nodes[at]
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: admit: %w", err)
	}
	if err := r.calls.enter(); err != nil {
		return err
	}
	defer r.calls.exit()
	failed := make([]error, len(named))
	var g errgroup.Group
	for i, n := range named {
		g.Go(func() error {
			if err := r.guard.Admit(ctx, n, r.defaults.nodeTimeout); err != nil {
				failed[i] = fmt.Errorf("redlock: admit: %s: %w", n.Name, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		failed = append(failed, fmt.Errorf("redlock: admit: %w", err))
	}
	return errors.Join(failed...)
}
