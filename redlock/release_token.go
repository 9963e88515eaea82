package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// Release releases a lock that another process took: resources and token are what
// [Lock.Resources] and [Lock.Token] of its handle say. It is for work that begins in one
// process and ends in another: an API takes the lock, and the worker that finishes the job
// releases it. Whoever holds a handle calls [Lock.Unlock] instead.
//
// The lock is handed on with its token. From then on the first process must neither work under
// it nor extend it (no Extend, KeepAlive or Do), and may drop the handle, which does not hear of
// the release. The lock still ends at that handle's Until, so hand Until on as well: whoever
// does the work must be done by then, or have the resource check the fence. Nobody can extend
// the lock there; see docs/faq.md for why. A token is a secret: whoever has it and reaches the
// nodes can release the lock.
//
// Release does what Unlock does, and wakes those who wait. It ignores the cancellation of ctx,
// whose values the hook gets. It takes at most the node timeout, and before that the connect
// timeout if no quorum is connected yet. resources must be all of the lock's: those left out
// stay locked until the ttl ends. [WithMinHold] of the first process does not count: the keys
// are deleted.
//
// The release of the other nodes goes on in the background, and nodes that cannot be reached
// are told when they are back. That goes on for as long as the keys may live: what the nodes
// that answered said, at least a minute; if none of them had a key, an hour, or WithQuarantine's
// maxTTL.
//
// nil means that a quorum of nodes has confirmed that the keys are gone, and that the lock was
// still there. An error from the nodes is a *[QuorumError] that matches
//
//   - ErrLost if the keys were gone or another's on so many nodes that no quorum can have had
//     them. The lock had ended, so that somebody else may have had it while the work went on; or
//     it was released before, so that ErrLost ends the repetition of a release whose result was
//     not known;
//   - ErrNoQuorum if too few nodes answered. The call may be repeated; the same Redlock does not
//     ask nodes again that have confirmed the release. It also matches ErrClosed if Close had
//     closed the connections meanwhile.
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
	if err := r.calls.enter(); err != nil {
		return err
	}
	defer r.calls.exit()
	t, first := r.released.join(releaseKey(resources, token), func() *claim { return r.foreignClaim(resources, keys, token) })
	if !first {
		<-t.ready
		return t.result
	}
	rd, v := r.releaseForeign(ctx, t.claim)
	switch v {
	case granted:
		r.counters.unlocked.Add(1)
	case lost:
		t.result = rd.fail(ErrLost)
	default:
		t.result = orClosed(rd.fail(ErrNoQuorum))
	}
	r.released.end(t)
	return t.result
}

// unknownLife is for how long the keys of a token may live whose ttl is not known. It is no
// whole number of milliseconds, as what a node says always is.
const unknownLife = time.Hour + 1

// foreignClaim is the claim of a token that another process has made. Any node may have
// its keys.
func (r *Redlock) foreignClaim(resources []string, keys []any, token string) *claim {
	c := &claim{resources: resources, keys: keys, token: token, args: lockArgs(token, unknownLife)}
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
	ask := node.Task{Kind: node.Ask, Command: lifeCommand(c.keys, c.token), Voter: &lifeReader{claim: c}, Limit: r.defaults.nodeTimeout}
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
type lifeReader struct {
	claim *claim

	mu    sync.Mutex // calls nothing
	known bool
}

func (l *lifeReader) Vote(_ int, out node.Outcome, _ time.Time) {
	if out.Stance != node.Yes || out.HolderTTL < 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		l.known = true
		l.claim.SetLife(out.HolderTTL)
		return
	}
	l.claim.Grow(out.HolderTTL)
}

// A tokenRelease is a call of Release, or several of them that are one.
type tokenRelease struct {
	key    string
	claim  *claim
	ready  chan struct{} // closed when the call has ended
	result error         // set before
	ends   time.Time     // of one that has ended and may be repeated: when no key can be left
}

// tokenReleases knows the releases that are running, and those that may be repeated: a node
// that has confirmed the first one would say to the second that the lock is lost.
type tokenReleases struct {
	mu    sync.Mutex // calls nothing that takes another
	open  map[string]*tokenRelease
	sweep int       // number at which those that have ended are swept out
	swept time.Time // when they were, last
	size  int       // bytes that are kept for those that may be repeated
}

// releaseKey tells the releases of different sets of resources apart, too.
func releaseKey(resources []string, token string) string {
	return fmt.Sprintf("%q %s", resources, token)
}

// join returns the release of that key, and whether it is the caller's to carry out.
func (s *tokenReleases) join(key string, newClaim func() *claim) (t *tokenRelease, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = s.open[key]
	if t != nil && t.ends.IsZero() {
		return t, false
	}
	next := &tokenRelease{key: key, ready: make(chan struct{})}
	if t != nil {
		next.claim = t.claim
		s.size -= t.claim.Weight()
	} else {
		next.claim = newClaim()
	}
	if s.open == nil {
		s.open = make(map[string]*tokenRelease)
	}
	s.open[key] = next
	return next, true
}

// end is called when t has got its result.
func (s *tokenReleases) end(t *tokenRelease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(t.ready)
	now := time.Now()
	full := func() bool { return len(s.open) > node.MaxBacklog || s.size+t.claim.Weight() > node.MaxForeign }
	if len(s.open) >= s.sweep || full() && now.Sub(s.swept) >= time.Second {
		s.forget(now)
	}
	if !errors.Is(t.result, ErrNoQuorum) || full() {
		delete(s.open, t.key)
		return
	}
	s.size += t.claim.Weight()
	t.ends = now.Add(max(t.claim.Longest(), node.MinTombstone))
}

// forget drops those of which no key can be left. s.mu is held.
func (s *tokenReleases) forget(now time.Time) {
	for key, t := range s.open {
		if !t.ends.IsZero() && now.After(t.ends) {
			delete(s.open, key)
			s.size -= t.claim.Weight()
		}
	}
	s.swept, s.sweep = now, max(minSweep, 2*len(s.open))
}
