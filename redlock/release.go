package redlock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// Release releases a lock that another process took. For example, an API takes the lock, and the
// worker that finishes the job releases it. resources and token are those of [Lock.Resources] and
// [Lock.Token] of the handle. Whoever has the handle calls [Lock.Unlock] instead.
//
// The lock is handed on with its token. From then on the first process must neither work under it nor extend it. It
// may drop the handle, which does not hear of the release. Nobody else can extend the lock (docs/faq.md says why). So
// hand on Until as well: whoever does the work must be done by then, or have the resource check the fence. A token is
// a secret: whoever has it and reaches the nodes can release the lock.
//
// Release does what Unlock does, and wakes those who wait. It ignores the cancellation of ctx;
// the hook gets the values of ctx. It takes at most the node timeout, and before that the
// connect timeout if no quorum is connected yet. resources must be all of the lock's: those
// left out stay locked until the ttl ends. [WithMinHold] does not count: the keys are deleted.
//
// Nodes that cannot be reached are told when they are back, in the background, for an hour or for WithQuarantine's
// maxTTL. On a node that is away for longer, the keys of a lock with a longer ttl end with that ttl.
//
// nil means that a quorum of nodes still had the lock's keys, and has confirmed that they are gone
// now. Unlike Unlock, Release does not know when the lock ends, so it never counts a node that did
// not have them. An error from the nodes is a *[QuorumError] that matches
//
//   - ErrLost if the keys were gone or another's on so many nodes that no quorum can have had
//     them. The lock had ended, so that somebody else may have had it while the work went on; or
//     an earlier call that ended with ErrNoQuorum has released it;
//   - ErrNoQuorum if the nodes that did not answer could make it a success or a loss. The release
//     goes on in the background, and may be repeated. The error also matches ErrClosed if Close had
//     closed the connections meanwhile.
//
// Otherwise the error is ErrClosed after Close, or says, before any I/O, what is wrong with an argument. The token is
// in no error and no event. Simultaneous calls for the same lock are one release.
//
// A request of the first process may still be under way to a node: a lock request, or a repair after an
// extension. It may arrive after the release and set a key again. That lets in no second holder, but
// blocks the node. So the release is repeated for a minute, as long as the Redlock is open: a key that
// is set t after it is gone by about 2t. A key that is set even later stays for one ttl.
func (r *Redlock) Release(ctx context.Context, resources []string, token string) error {
	if err := misused(ctx, r.invalid()); err != nil {
		return err
	}
	if err := tokens.Check(token); err != nil {
		return err
	}
	on := new(target)
	if err := on.aim(r.defaults.prefix, resources); err != nil {
		return err
	}
	if err := r.calls.Enter(); err != nil {
		return err
	}
	defer r.calls.Exit()
	same := fmt.Sprintf("%q %s", on.resources, token) // A different set of resources is a different release.
	_, err, _ := r.releasing.Do(same, func() (any, error) { return nil, r.releaseForeign(ctx, on, token) })
	return err
}

// unknownLife is how long a release is kept for a node that is away, if the token's ttl is not known and no quarantine
// bounds all ttls.
const unknownLife = time.Hour

// releaseForeign releases the lock of a token that another process has made. Any node may have its keys.
func (r *Redlock) releaseForeign(ctx context.Context, on *target, token string) error {
	_ = r.connected(context.WithoutCancel(ctx)) // If Close ends the wait, the nodes' votes say so.
	c := &claim{r: &r.core, target: on, args: []any{token}, wakes: true}
	// Counted: the resource, its key, its bell, the name of the release, and all pointers to them.
	size := 1 << 10
	for _, res := range on.resources {
		size += 4*len(res) + 1<<7
	}
	c.grow(cmp.Or(r.defaults.quarantine, unknownLife))
	c.BeginForeign(c, len(r.nodes), size)
	rd := r.newRound(ctx, c, c.releaseTelling(time.Now(), false), lease.Releasing, 0)
	if v := rd.release(r.defaults.nodeTimeout); v != lease.Granted {
		return orClosed(rd.fail(verdictError(v)))
	}
	r.counts.Unlocked.Add(1)
	return nil
}
