package redlock

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// Ready returns nil if a quorum of nodes is connected and would vote, as far as is known: nodes that do not vote
// in time ([NodeStats].Unresponsive), are in quarantine or are set up for another number of nodes do not count.
// It is for a readiness probe: whether work that needs locks should be sent here. It says nothing about whether
// this process is well, and a restart cures none of it, so never make it a liveness probe.
//
// It begins to connect to nodes that nobody has needed yet, and waits as [Redlock.TryLock] does: at most the
// connect timeout, while a quorum may still be made of nodes of which nothing bad is known. Nodes that abstained
// when they were last heard are asked whether they still do, which takes at most the node timeout. Otherwise it
// does no I/O. A node that hangs while nobody uses it is noticed within 20 s.
//
// The error matches ErrNoQuorum and names each node that gives no vote, with why, but no credentials; or it is
// ErrClosed, or the context's. It may be called at any time.
func (r *Redlock) Ready(ctx context.Context) error {
	if err := misused(ctx, r.invalid()); err != nil {
		return err
	}
	if err := r.calls.Enter(); err != nil {
		return err
	}
	defer r.calls.Exit()
	err := r.connected(ctx)
	if err != nil {
		return fmt.Errorf("redlock: ready: %w", err)
	}
	r.askAbstaining(ctx)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: ready: %w", err)
	}
	votes, missing := 0, ""
	for _, n := range r.nodes {
		if why := whyNoVote(n); why != nil {
			missing += "; " + n.Name + ": " + plain(why)
		} else {
			votes++
		}
	}
	if votes >= r.need {
		return nil
	}
	text := fmt.Sprintf("redlock: not ready: %d of %s would vote, %d needed (%s)",
		votes, brief.Count(len(r.nodes), "node"), r.need, strings.TrimPrefix(missing, "; "))
	return &caseError{text, ErrNoQuorum}
}

// whyNoVote says why a node would give no vote; nil if it would.
func whyNoVote(n *node.Node) error {
	s := n.Status()
	why := cmp.Or(s.Unresponsive, s.Abstains, s.Down)
	if why == nil && !s.Up {
		return node.ErrUnreached
	}
	return why
}

// askAbstaining has nodes say again that they abstain: an Admit has ended that, of which only locks would hear. And no
// work comes here that would lock, as long as this process is not ready.
func (r *Redlock) askAbstaining(ctx context.Context) {
	var all sync.WaitGroup
	for _, n := range r.nodes {
		if n.Status().Abstains != nil {
			all.Go(func() { _ = n.Call(ctx, quarantine.LookCommand, r.defaults.nodeTimeout) })
		}
	}
	all.Wait()
}
