package redlock

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// An Inspection says who holds one resource, node by node. It is a snapshot, of each node at a
// slightly different instant, for people and dashboards: a program that acts on it races with
// every other client.
type Inspection struct {
	Resource string // as given, without the prefix
	Need     int    // the quorum

	// Held is whether one token was seen on a quorum of nodes. The other fields are about
	// that token, and zero without it.
	Held   bool
	Holder string        // its digest, as refusals show it in Vote.Holder
	Owner  string        // its label, if it has one ([WithOwner])
	Token  string        // its first characters
	TTL    time.Duration // until fewer than Need of its keys are left; negative: they do not expire

	Nodes []NodeInspection // in the order given to New, always all of them
}

// A NodeInspection is what one node stores for a resource.
type NodeInspection struct {
	Node   string        // the node's name
	Took   time.Duration // until the node answered, or was given up
	Err    error         // ErrNodeTimeout, ErrClosed or the node's own error; nil if it answered
	Holder string        // digest of the token, as in Vote.Holder; "" if nobody holds the resource here
	Owner  string        // the holder's label, if it has one ([WithOwner])
	Token  string        // the token's first characters
	TTL    time.Duration // how long the key still lives; negative: it does not expire
}

// String returns in a few words what the node stores.
func (n NodeInspection) String() string {
	switch {
	case n.Err != nil:
		return n.Node + ": " + strings.TrimPrefix(n.Err.Error(), "redlock: ")
	case n.Holder == "":
		return n.Node + ": free"
	default:
		return n.Node + ": " + heldBy(n.Holder, n.Owner, n.TTL)
	}
}

// shortToken is how much of a token is shown: enough to tell two apart, too
// little to release the lock with.
const shortToken = 8

// Inspect asks every node who holds resource. It waits for all of them, but no longer than the
// node timeout, and before that the connect timeout if no quorum is connected yet. The error is
// nil unless resource is malformed, the Redlock is closed or ctx ends first: nodes that do not
// answer are in the result.
func (r *Redlock) Inspect(ctx context.Context, resource string) (Inspection, error) {
	if err := r.misused(ctx); err != nil {
		return Inspection{}, err
	}
	_, keys, err := keysOf(r.defaults.prefix, []string{resource})
	if err != nil {
		return Inspection{}, err
	}
	if err := ctx.Err(); err != nil {
		return Inspection{}, &waitError{op: OpInspect, resources: []string{resource}, cause: err}
	}
	if err := r.calls.enter(); err != nil {
		return Inspection{}, err
	}
	defer r.calls.exit()

	if ended := r.connected(ctx); ended != nil {
		return Inspection{}, &waitError{op: OpInspect, resources: []string{resource}, cause: ended}
	}
	in := Inspection{Resource: resource, Need: r.need, Nodes: make([]NodeInspection, len(r.nodes))}
	cmd := inspectCommand(keys[0])
	var g errgroup.Group
	for i, n := range r.nodes {
		g.Go(func() error {
			start := time.Now()
			out := n.Call(ctx, cmd, r.defaults.nodeTimeout)
			in.Nodes[i] = NodeInspection{
				Node: n.Name, Took: time.Since(start), Err: out.Err,
				Holder: out.Holder, Owner: out.Owner, Token: short(out.Value), TTL: out.HolderTTL,
			}
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return Inspection{}, &waitError{op: OpInspect, resources: []string{resource}, cause: err}
	}
	in.findHolder()
	return in, nil
}

func short(token string) string {
	if len(token) <= shortToken {
		return token
	}
	return token[:shortToken] + "…"
}

// findHolder fills in what the nodes amount to.
func (in *Inspection) findHolder() {
	ttls := make(map[string][]time.Duration)
	for _, n := range in.Nodes {
		if n.Err != nil || n.Holder == "" {
			continue
		}
		seen := append(ttls[n.Holder], n.TTL)
		ttls[n.Holder] = seen
		if len(seen) >= in.Need {
			in.Held, in.Holder, in.Owner, in.Token = true, n.Holder, n.Owner, n.Token
		}
	}
	if in.Held {
		in.TTL = needed(ttls[in.Holder], in.Need)
	}
}

// needed returns the ttl of the key with whose expiry fewer than need are left:
// the need-th longest, where a negative one is the longest of all.
func needed(ttls []time.Duration, need int) time.Duration {
	slices.SortFunc(ttls, func(a, b time.Duration) int {
		// As unsigned numbers, what is negative is larger than what is not.
		return cmp.Compare(uint64(b), uint64(a))
	})
	return ttls[need-1]
}
