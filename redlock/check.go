package redlock

import (
	"context"
	"fmt"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/fitness"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// Check finds out whether the nodes are fit for Redlock: it looks for misconfigurations that
// cost exclusion or locks, such as a replica, a server given twice, a cache that evicts.
// docs/check.md lists what it looks at and what to do.
//
// It asks every node, on a connection that it borrows for the purpose and that the node's pool
// must have to spare. It waits for all of them, but no longer than eight node timeouts or one
// second, whichever is more. It takes no lock. To find out what the user may do it sets two keys
// and deletes them in the same script: one in the reserved key space, and one outside of it with
// a random name, as a resource's is. What a server does not tell this client is unknown, not an
// error; a server with ACLs may log the refusal.
//
// The report is a snapshot, for people, dashboards and a program's start; nothing in the library
// depends on it. The error is nil unless ctx ends first or the Redlock is closed: nodes that
// cannot be reached are in the report.
func (r *Redlock) Check(ctx context.Context) (Report, error) {
	if err := r.misused(ctx); err != nil {
		return Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("redlock: check: %w", err)
	}
	if err := r.calls.enter(); err != nil {
		return Report{}, err
	}
	defer r.calls.exit()
	asking, cancel := r.untilClosed(ctx)
	defer cancel()
	setup := r.setup()
	nodes := make([]fitness.Node, len(r.nodes))
	for i, n := range r.nodes {
		nodes[i] = r.checked(n, setup.Key)
	}
	found := fitness.Check(asking, setup, nodes)
	if err := ctx.Err(); err != nil {
		return Report{}, fmt.Errorf("redlock: check: %w", err)
	}
	if asking.Err() != nil {
		return Report{}, ErrClosed
	}
	return reportOf(found), nil
}

// setup is what the findings depend on besides the nodes.
func (r *Redlock) setup() *fitness.Setup {
	space := r.defaults.prefix + reservedMark
	s := &fitness.Setup{
		NodeTimeout: r.defaults.nodeTimeout,
		Nodes:       len(r.nodes),
		Quorum:      r.need,
		Prefix:      r.defaults.prefix,
		Space:       space,
		Key:         space + "check",
		Channel:     space + channelMark + "check",
		Fencing:     r.defaults.fencing,
		Polling:     r.defaults.polling,
	}
	if r.guard != nil {
		s.Quarantine = &fitness.Quarantine{
			MaxTTL: r.defaults.quarantine, Margin: quarantine.Margin, Key: r.guard.Marker(),
			Parse: func(text string) fitness.Marker { return fitness.Marker(quarantine.ParseMarker(text)) },
		}
	}
	return s
}

// checked is a node as Check sees it. key is the one that Check itself sets.
func (r *Redlock) checked(n *node.Node, key string) fitness.Node {
	return fitness.Node{
		Name: n.Name, Source: n.Source, UnusedKey: n.UnusedKey(),
		// As a resource's could be, and none is: it ends with 128 random bits. To lock a
		// resource of the user's instead would be to get in somebody's way.
		ResourceKey: r.defaults.prefix + "redlock-check:" + newToken(),
		Down:        n.Unreached,
		Alive: func(ctx context.Context) bool {
			if !n.IsUp() {
				return false
			}
			out := n.Call(ctx, inspectCommand(key), n.Timeout)
			return out.Err == nil || conn.IsReply(out.Err)
		},
	}
}

// untilClosed returns a context that also ends when Close is called.
func (r *Redlock) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-r.calls.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// reportOf returns what was found as the public types have it.
func reportOf(found fitness.Report) Report {
	r := Report{Nodes: make([]NodeReport, len(found.Nodes)), Findings: make([]Finding, len(found.Findings))}
	for i, n := range found.Nodes {
		r.Nodes[i] = NodeReport(n)
	}
	for i, f := range found.Findings {
		r.Findings[i] = Finding{Node: f.Node, Check: f.Check, Verdict: Verdict(f.Verdict), Text: f.Text, Advice: f.Advice}
	}
	return r
}
