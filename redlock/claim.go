package redlock

import (
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// A claim is one attempt's token on a set of resources, and what is known of
// its traces on every node. A token is made for one attempt and never used
// again: with one token over several attempts, what is late of an earlier
// attempt would act on a later one.
type claim struct {
	node.Token

	r         *core
	resources []string // sorted, each once
	keys      []any    // prefix+resource, boxed
	token     string
	args      []any                     // of its lock request, boxed
	left      atomic.Pointer[time.Time] // a release leaves the keys until then; nil: it deletes them
	fencing   *fencing                  // nil: without
	space     [2]any                    // for args

	// wake is how the claim's release tells those who wait; nil: it does not, or there is
	// none yet. It has no lock: it is set before the first release is handed to a node, and
	// never after that. A node's goroutines look at it for a release only, which has come to
	// them through the node's mutex.
	wake *queueKeys
}

// newClaim makes a claim with a token of its own; owner is its label, empty for none.
func (r *core) newClaim(resources []string, keys []any, owner string, le *lease) *claim {
	token := tokens.WithLabel(tokens.New(), owner)
	c := &claim{r: r, resources: resources, keys: keys, token: token}
	c.args = lockArgs(c.space[:0], token, le.ms)
	c.Begin(c, len(r.nodes), le.ttl)
	return c
}

// withFencing has the lock request ask for a fence. What it proposes is the client's clock
// in µs.
func (c *claim) withFencing(f *fencing, now time.Time) {
	c.fencing = f
	proposal := now.UnixMicro()
	if proposal > fences.Max {
		proposal = 0
	}
	c.args = fencedLockArgs(c.args, proposal, f)
}

// leaveUntil notes that a release is to leave the keys until t.
func (c *claim) leaveUntil(t time.Time) { c.left.Store(&t) }

// KeptUntil is until when a release leaves the keys; zero: it deletes them.
func (c *claim) KeptUntil() time.Time {
	if t := c.left.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// Keys are those of the resources.
func (c *claim) Keys() []any { return c.keys }

// Value is the token, boxed.
func (c *claim) Value() any { return c.args[0] }

// leaveMillis is for how long a release leaves the keys from now on.
func (c *claim) leaveMillis(now time.Time) int64 {
	left := c.KeptUntil().Sub(now)
	if left <= 0 {
		return 0
	}
	return serverMillis(left)
}

func (c *claim) lockCommand() node.Command {
	if c.fencing != nil {
		return fencedLockCommand(c.args, c.fencing)
	}
	return lockCommand(c.keys, c.args)
}

// Release is the release of a lock or of an attempt that was cut short, which tell the next in line, or of one
// that has failed, which does not. Sent again, it tells them in any case. The voter reads who was told.
func (c *claim) Release(now time.Time, again bool) (node.Command, node.Voter) {
	w := c.wake
	switch {
	case w == nil && !again:
		return undoCommand(c.keys, c.args), nil
	case w == nil:
		w = c.r.queueKeys(c.resources, c.keys)
	}
	return c.releaseTelling(w, now), &wakeReader{wake: w}
}

// releaseTelling is the release that tells the next in line.
func (c *claim) releaseTelling(w *queueKeys, now time.Time) node.Command {
	if ms := c.leaveMillis(now); ms > 0 {
		return leaveCommand(w.keys, c.token, ms)
	}
	return unlockCommand(w.keys, c.args)
}
