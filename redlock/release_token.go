package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// Release releases a lock that another process took, as an API does whose worker finishes the job.
// resources and token are what [Lock.Resources] and [Lock.Token] of its handle say. Whoever has the
// handle calls [Lock.Unlock] instead.
//
// The lock is handed on with its token. From then on the first process must neither work under
// it nor extend it, and may drop the handle, which does not hear of the release. Nobody else can
// extend the lock (docs/faq.md says why). So hand Until on as well: whoever does the work must be
// done by then, or have the resource check the fence. A token is a secret: whoever has it and
// reaches the nodes can release the lock.
//
// Release does what Unlock does, and wakes those who wait. It ignores the cancellation of ctx,
// whose values the hook gets. It takes at most the node timeout, and before that the connect
// timeout if no quorum is connected yet. resources must be all of the lock's: those left out
// stay locked until the ttl ends. [WithMinHold] does not count: the keys are deleted.
//
// Nodes that cannot be reached are told when they are back, in the background, for as long as the
// keys may live: what the nodes that answered said, at least a minute; if none of them had a key,
// an hour, or WithQuarantine's maxTTL.
//
// nil means that a quorum of nodes has confirmed that the keys are gone, and that the lock was
// still there. An error from the nodes is a *[QuorumError] that matches
//
//   - ErrLost if the keys were gone or another's on so many nodes that no quorum can have had
//     them. The lock had ended, so that somebody else may have had it while the work went on; or
//     it was released before, by a call whose result was not known;
//   - ErrNoQuorum if too few nodes answered. Repeat it with the same Redlock, which remembers the
//     nodes that have confirmed. Another one may say ErrLost, which then means only that the lock
//     is gone. The error also matches ErrClosed if Close had closed the connections meanwhile.
//
// Otherwise the error is ErrClosed after Close, or says, before any I/O, what is wrong with an
// argument. The token is in no error and no event. Simultaneous calls for the same lock are one
// release.
//
// No key is left behind but in one case: what the first process sent before, a lock request
// that is still under way to a node or a repair after an extension, may arrive after the release
// and set a key again, for one ttl. It blocks its node, and lets in no second holder.
func (r *Redlock) Release(ctx context.Context, resources []string, token string) error {
	if err := r.misused(ctx); err != nil {
		return err
	}
	if err := tokens.Check(token); err != nil {
		return err
	}
	resources, keys, err := keysOf(r.defaults.prefix, resources)
	if err != nil {
		return err
	}
	if err := r.calls.Enter(); err != nil {
		return err
	}
	defer r.calls.Exit()
	key := fmt.Sprintf("%q %s", resources, token) // Others of the token's resources are another release.
	t, first := r.released.Join(key, func() *claim { return r.foreignClaim(resources, keys, token) })
	if !first {
		<-t.Ready
		return t.Err
	}
	rd, v := r.releaseForeign(ctx, t.Claim)
	switch v {
	case granted:
		r.counters.unlocked.Add(1)
	case lost:
		t.Err = rd.fail(ErrLost)
	default:
		t.Err = orClosed(rd.fail(ErrNoQuorum))
	}
	r.released.End(t, errors.Is(t.Err, ErrNoQuorum))
	return t.Err
}

// unknownLife is for how long the keys of a token may live whose ttl is not known. It is no
// whole number of milliseconds, as what a node says always is.
const unknownLife = time.Hour + 1

// foreignClaim is the claim of a token that another process has made. Any node may have
// its keys.
func (r *Redlock) foreignClaim(resources []string, keys []any, token string) *claim {
	c := &claim{resources: resources, keys: keys, token: token, args: lockArgs(nil, token, unknownLife)}
	life := unknownLife
	if q := r.defaults.quarantine; q > 0 {
		life = q + 1
	}
	// The resource, its key, its bell and the name of the release, and what has pointers to them.
	size := 1 << 10
	for _, res := range resources {
		size += 4*len(res) + 1<<7
	}
	c.BeginForeign(c, len(r.nodes), life, size)
	return c
}

// releaseForeign asks all nodes to release the claim, and, right before, how long its keys
// still live: as the release deletes them, it is the last moment to learn for how long a
// node that does not answer may have them.
func (r *Redlock) releaseForeign(ctx context.Context, c *claim) (*round, verdict) {
	_ = r.connected(context.WithoutCancel(ctx)) // What the end of the Redlock comes to, the nodes say.
	t := r.wakeReader(c)
	rd := r.newRound(ctx, OpRelease, c, c.ReleaseCommand(time.Now()), node.Release, decideUnlock, 0)
	t.next, rd.task.Voter = rd, t
	ask := node.Task{Kind: node.Ask, Command: lifeCommand(c.keys, c.token), Voter: lifeReader{c}, Limit: r.defaults.nodeTimeout}
	now := time.Now()
	for i, n := range r.nodes {
		if n.Confirmed(&c.Token, i) { // In an earlier call.
			rd.skip(i, ballot{stance: node.Yes})
			continue
		}
		// Without an answer the life stays what it was.
		_ = n.Enqueue(&node.Request{Task: &ask, Index: uint16(i), Eval: true}, now)
	}
	rd.ask(now, r.defaults.nodeTimeout)
	<-rd.decided
	v, _ := rd.result()
	if v == granted && !t.told.Load() {
		r.queue.HandOver(c.keys)
	}
	return rd, v
}

// A lifeReader reads from the answers to the life script for how long the keys of a claim
// may live.
type lifeReader struct{ claim *claim }

func (l lifeReader) Vote(_ int, out node.Outcome, _ time.Time) {
	if out.Stance == node.Yes && out.HolderTTL >= 0 {
		l.claim.Grow(out.HolderTTL)
	}
}
