package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/quarantine"
)

// Admit ends the quarantine of the named nodes and has them adopt this client's number of nodes and maxTTL, also a
// maxTTL that is smaller than what they have heard of. From then on they grant locks. It is for an operator who knows
// that no lock is held that those nodes have forgotten: for a new cluster, after a restart of a node that keeps its
// data, or when all clients have got another number of nodes; see docs/operations.md. A node that is admitted too
// early can let a second holder in. A larger maxTTL needs no Admit.
//
// The nodes are given by their names; there is no way to say "all". The call fails before any
// I/O if a name is none of New's, if none is given, or without WithQuarantine. Otherwise it asks
// every named node, and waits up to twice the node timeout.
//
// nil means that all of them have done it. The error names the nodes that have not, or have not said so; the call may
// be repeated. It also matches the context's error, if that ended first; it is ErrClosed after Close. A node is
// admitted only in the run of its server in which Admit has met it, even if the node carries out the request late.
func (r *Redlock) Admit(ctx context.Context, nodes ...string) error {
	if err := misused(ctx, r.invalid()); err != nil {
		return err
	}
	if r.defaults.quarantine == 0 {
		return errors.New("redlock: admit: the Redlock has no WithQuarantine")
	}
	if len(nodes) == 0 {
		return errors.New("redlock: admit: no nodes")
	}
	named := make([]*link.Link, len(nodes))
	for i, name := range nodes {
		at := slices.IndexFunc(r.nodes, func(n *link.Link) bool { return n.Name == name })
		if at < 0 {
			return fmt.Errorf("redlock: admit: no node is named %q", name)
		}
		named[i] = r.nodes[at]
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: admit: %w", err)
	}
	if err := r.calls.Enter(); err != nil {
		return err
	}
	defer r.calls.Exit()
	failed := make([]error, len(named))
	var all sync.WaitGroup
	for i, n := range named {
		all.Go(func() {
			if err := r.quarantine.Admit(ctx, n, r.defaults.nodeTimeout); err != nil {
				failed[i] = fmt.Errorf("redlock: admit: %s: %w", n.Name, err)
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		failed = append(failed, fmt.Errorf("redlock: admit: %w", err))
	}
	return errors.Join(failed...)
}

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
	if err := r.connected(ctx); err != nil {
		return fmt.Errorf("redlock: ready: %w", err)
	}
	var all sync.WaitGroup
	for _, n := range r.nodes {
		// An Admit may have ended that, which only lock requests would notice. No work that locks comes here while this
		// process is not ready.
		if n.Stats().Abstains != nil {
			all.Go(func() { _ = n.Call(ctx, quarantine.LookCommand, r.defaults.nodeTimeout) })
		}
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: ready: %w", err)
	}
	var missing []string
	for _, n := range r.nodes {
		s := n.Stats()
		if why := cmp.Or(s.Unresponsive, s.Abstains, n.Unreached()); why != nil {
			missing = append(missing, n.Name+": "+plain(why))
		}
	}
	votes := len(r.nodes) - len(missing)
	if votes >= r.need {
		return nil
	}
	return &caseError{fmt.Sprintf("redlock: not ready: %d of %s would vote, %d needed (%s)",
		votes, brief.Count(len(r.nodes), "node"), r.need, strings.Join(missing, "; ")), ErrNoQuorum}
}

// An Inspection says who holds one resource, node by node. It is a snapshot, of each node at a slightly different
// instant, for people and dashboards: a program that acts on it races with every other client.
type Inspection struct {
	Resource string // as given, without the prefix
	Need     int    // the quorum

	// Held is whether one token was seen on a quorum of nodes. The other fields are about
	// that token, and zero without it.
	Held       bool
	Holder     string        // its digest, as in [Lock.Holder] and Vote.Holder
	Owner      string        // its label, if it has one ([WithOwner])
	TokenStart string        // its first characters, with which nothing can be released
	TTL        time.Duration // until fewer than Need of its keys are left; negative: they do not expire

	Nodes []NodeInspection // in the order given to New, always all of them
}

// A NodeInspection is what one node stores for a resource.
type NodeInspection struct {
	Node       string        // the node's name
	Took       time.Duration // until the node answered, or was given up
	Err        error         // ErrNodeTimeout, ErrClosed or the node's own error; nil if it answered
	Holder     string        // digest of the token, as in [Lock.Holder]; "" if nobody holds the resource here
	Owner      string        // the holder's label, if it has one ([WithOwner])
	TokenStart string        // the token's first characters
	TTL        time.Duration // how long the key still lives; negative: it does not expire
}

// Inspect asks every node who holds resource. It waits for all of them, but no longer than the node timeout, and
// before that the connect timeout if no quorum is connected yet. The error is nil unless resource is malformed, the
// Redlock is closed or ctx ends first: nodes that do not answer are in the result.
func (r *Redlock) Inspect(ctx context.Context, resource string) (Inspection, error) {
	if err := misused(ctx, r.invalid()); err != nil {
		return Inspection{}, err
	}
	var on target
	if err := on.aim(r.defaults.prefix, []string{resource}); err != nil {
		return Inspection{}, err
	}
	if err := ctx.Err(); err != nil {
		return Inspection{}, &waitError{op: opInspect, resources: []string{resource}, cause: err}
	}
	if err := r.calls.Enter(); err != nil {
		return Inspection{}, err
	}
	defer r.calls.Exit()

	if ended := r.connected(ctx); ended != nil {
		return Inspection{}, &waitError{op: opInspect, resources: []string{resource}, cause: ended}
	}
	in := Inspection{Resource: resource, Need: r.need, Nodes: make([]NodeInspection, len(r.nodes))}
	cmd := inspectCommand(on.keys[0])
	var all sync.WaitGroup
	for i, n := range r.nodes {
		all.Go(func() {
			start := time.Now()
			out := n.Call(ctx, cmd, r.defaults.nodeTimeout)
			in.Nodes[i] = NodeInspection{Node: n.Name, Took: time.Since(start), Err: out.Err}
			if h := out.Holder; h != nil {
				in.Nodes[i].Holder, in.Nodes[i].Owner, in.Nodes[i].TokenStart, in.Nodes[i].TTL = h.Digest, h.Owner, h.Token, h.TTL
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return Inspection{}, &waitError{op: opInspect, resources: []string{resource}, cause: err}
	}
	in.findHolder()
	return in, nil
}

// isFree returns nil once a quorum of nodes has no key of resource, or one with the label owner. A lock that was
// acquired before the call, and is held, is on a node of any quorum. The requests to the other nodes go on until ctx
// ends.
func (r *Redlock) isFree(ctx context.Context, resource, owner string) error {
	if err := r.connected(ctx); err != nil {
		return err
	}
	if r.calls.IsClosing() {
		return ErrClosed
	}
	answers := make(chan node.Outcome, len(r.nodes))
	for _, n := range r.nodes {
		go func() { answers <- n.Call(ctx, inspectCommand(r.defaults.prefix+resource), r.defaults.nodeTimeout) }()
	}
	free, taken := 0, 0
	for range r.nodes {
		switch out := <-answers; {
		case out.Err != nil:
		case out.Holder == nil || out.Holder.Owner == owner:
			free++
		default:
			taken++
		}
		if free == r.need {
			return nil
		}
		if taken > len(r.nodes)-r.need {
			return ErrTaken
		}
	}
	return cmp.Or(ctx.Err(), ErrNoQuorum)
}

// findHolder fills in who holds the resource, by what the nodes say.
func (in *Inspection) findHolder() {
	ttls := make(map[string][]time.Duration)
	for _, n := range in.Nodes {
		if n.Err != nil || n.Holder == "" {
			continue
		}
		ttls[n.Holder] = append(ttls[n.Holder], n.TTL)
		if len(ttls[n.Holder]) >= in.Need {
			in.Held, in.Holder, in.Owner, in.TokenStart = true, n.Holder, n.Owner, n.TokenStart
		}
	}
	if in.Held {
		in.TTL = needed(ttls[in.Holder], in.Need)
	}
}

// needed returns the need-th longest ttl, where a negative one is the longest of all: when that key expires, fewer than
// need are left.
func needed(ttls []time.Duration, need int) time.Duration {
	slices.SortFunc(ttls, func(a, b time.Duration) int {
		// As an unsigned number, a negative ttl is larger than others.
		return cmp.Compare(uint64(b), uint64(a))
	})
	return ttls[need-1]
}
