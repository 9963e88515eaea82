package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/internal/waiting"
)

// checkEnd checks (7): a call ends within its bound, at once when its context
// ends and, if it acquires, at once when the client is closed.
func (w *simWorker) checkEnd(what string, start time.Time, bound time.Duration, end time.Time, acquires bool) {
	now := time.Now()
	if took := now.Sub(start); took > bound {
		w.s.failf("(7) %s of %s took %v, more than %v", what, w.name, took, bound)
	}
	w.s.mu.Lock()
	closing := w.c.closing
	w.s.mu.Unlock()
	if !acquires {
		closing = time.Time{}
	}
	for _, end := range []time.Time{end, closing} {
		if end.IsZero() {
			continue
		}
		if end.Before(start) {
			end = start
		}
		if now.After(end) {
			w.s.failf("(7) %s of %s ended %v after its context or the client", what, w.name, now.Sub(end))
		}
	}
}

// check looks at a lock from outside: (3) while it is held a quorum of nodes
// store its token for every resource, and go on doing so until Until; (4) Err
// says that it ended at Until at the latest, or with its release, for ever.
func (w *simWorker) check(l *simLock, when string) {
	s := w.s
	before := l.observeErr(s, when)
	until := l.Until()
	var missing []string
	have := 0
	for _, n := range s.nodes {
		if why := n.stores(l, until); why == "" {
			have++
		} else {
			missing = append(missing, n.Name()+": "+why)
		}
	}
	// Somebody else may have begun to release the lock meanwhile.
	if after := l.observeErr(s, when); before == nil && after == nil && have < s.need {
		s.failf("(3) %s (token %.6s), %s and held until %v, has only %d of %d nodes: %s",
			l.name, l.Token(), when, s.offset(until), have, s.need, strings.Join(missing, ", "))
	}
}

// stores returns "" if the node stores the lock's keys until t.
func (n *simNode) stores(l *simLock, t time.Time) string {
	stored := n.lockKeys()
	now := time.Now()
	for _, res := range l.Resources() {
		key, ok := stored[n.s.prefix+res]
		switch {
		case !ok:
			return "no key " + res
		case key.Value != l.Token():
			return fmt.Sprintf("%s is %.6s", res, key.Value)
		case key.TTL < 0:
			return res + " does not expire"
		case now.Add(key.TTL).Before(t):
			return fmt.Sprintf("%s expires at %s", res, n.s.offset(now.Add(key.TTL)))
		}
	}
	return ""
}

// same is not errors.Is, which takes ErrExpired for an ErrLost.
func same(a, b error) bool { return a == b } //nolint:errorlint // Says the comment.

// observeErr checks (4) and returns Err.
func (l *simLock) observeErr(s *sim, when string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, released := l.err, l.released
	err := l.Err()
	now := time.Now()
	until := l.Until()
	switch {
	case err == nil && known != nil:
		s.failf("(4) %s, %s, is held again after %v", l.name, when, known)
	case known != nil && !same(err, known):
		s.failf("(4) Err of %s changed from %v to %v", l.name, known, err)
	case err == nil && !now.Before(until):
		s.failf("(4) %s, %s, is held after Until %v", l.name, when, s.offset(until))
	case err == nil && !released.IsZero() && now.After(released):
		s.failf("(4) %s, %s, is held after Unlock at %v", l.name, when, s.offset(released))
	case same(err, ErrExpired) && now.Before(until):
		s.failf("(4) %s, %s, has expired before Until %v", l.name, when, s.offset(until))
	case same(err, ErrLost) && released.IsZero():
		// Nodes keep their data, so nobody can take a lock away.
		s.failf("(4) %s, %s, is lost though it was not released", l.name, when)
	case err != nil && !same(err, ErrLost) && !same(err, ErrExpired):
		s.failf("(4) Err of %s: %v", l.name, err)
	}
	l.err = err
	return err
}

// A simTally counts votes as the documentation does.
type simTally struct{ yes, no, unanswered, pending int }

func tallyVotes(votes []Vote) (t simTally) {
	for _, v := range votes {
		switch {
		case v.Err == nil:
			t.yes++
		case errors.Is(v.Err, ErrTaken), errors.Is(v.Err, ErrLost):
			t.no++
		case errors.Is(v.Err, ErrPending):
			t.pending++
		default:
			t.unanswered++
		}
	}
	return t
}

// verdict is what votes amount to at the decision; nil, false: nothing yet.
func (t simTally) verdict(op Op, need, n int) (reason error, decided bool) {
	spare := n - need
	switch {
	case op != OpLock && t.no > spare:
		return ErrLost, true
	case t.yes >= need:
		return nil, true
	case op == OpUnlock && t.yes+t.no >= need && t.no+t.pending <= spare:
		return nil, true
	case t.unanswered > spare:
		return ErrNoQuorum, true
	case op == OpLock && t.no+t.unanswered > spare:
		return ErrTaken, true
	case op == OpExtend && t.no+t.unanswered > spare:
		return ErrNoQuorum, true
	}
	return nil, false
}

// checkEvent checks (8) where it can be exact: the event of a decision has the
// votes as they were.
func (s *sim) checkEvent(c *simClient, e Event) {
	if e.Kind != EventDecided && e.Kind != EventSettled {
		return
	}
	s.checkVotes(fmt.Sprintf("event of c%d", c.id), e.Votes, e.Op)
	t := tallyVotes(e.Votes)
	if e.Kind == EventSettled {
		if t.pending > 0 && (e.Op != OpLock || !c.sawSplit()) {
			s.failf("(8) c%d: settled with votes pending: %v", c.id, e.Votes)
		}
		return
	}
	want, decided := t.verdict(e.Op, s.need, len(s.nodes))
	for !decided && t.pending > 0 && e.Op == OpLock && c.sawSplit() {
		t.unanswered, t.pending = t.unanswered+1, t.pending-1
		if want, decided = t.verdict(e.Op, s.need, len(s.nodes)); !same(want, e.Err) {
			want, decided = nil, false
		}
	}
	late := want == nil && (errors.Is(e.Err, ErrNoQuorum) || e.Op == OpExtend && errors.Is(e.Err, ErrExpired))
	switch {
	case decided && late && e.Op != OpUnlock: // A quorum, but too late; checked with the call's result.
	case decided && !same(e.Err, want):
		s.failf("(8) c%d: %s %q was decided as %v, but by the votes as %v: %v", c.id, e.Op, e.Resources, e.Err, want, e.Votes)
	case !decided && (e.Err == nil || errors.Is(e.Err, ErrTaken) || errors.Is(e.Err, ErrNoQuorum) || errors.Is(e.Err, ErrLost)):
		s.failf("(8) c%d: %s %q was decided as %v, but the votes decide nothing: %v", c.id, e.Op, e.Resources, e.Err, e.Votes)
	}
}

// sawSplit reports whether the client had to resolve a split vote, or different
// counters. In the later rounds of one, a node that has not answered the first is not
// asked and counts as silent, so that the votes do not show any more what was decided
// on them.
func (c *simClient) sawSplit() bool {
	return c.r.counters.splits.Load()+c.r.counters.raised.Load() > 0
}

// checkVotes checks that all nodes are there, in order, with plausible votes.
func (s *sim) checkVotes(what string, votes []Vote, op Op) {
	names := make([]string, len(votes))
	for i, v := range votes {
		names[i] = v.Node
		switch {
		case errors.Is(v.Err, ErrTaken) && (op != OpLock || v.Holder == "" && v.HolderTTL > waiting.YieldTime):
			s.failf("(8) %s: %s vote of %s: taken by %q", what, op, v.Node, v.Holder)
		case errors.Is(v.Err, ErrLost) && op == OpLock:
			s.failf("(8) %s: lock vote of %s: lost", what, v.Node)
		case v.Took < 0 || v.Took > 2*simTimeouts[len(simTimeouts)-1]:
			s.failf("(8) %s: vote of %s took %v", what, v.Node, v.Took)
		}
	}
	for i, n := range s.nodes {
		if len(names) != len(s.nodes) || names[i] != n.Name() {
			s.failf("(8) %s: votes of %q", what, names)
			return
		}
	}
}

// quorumError checks the form of an error (8) and returns its reason, nil if it
// has no *QuorumError.
func (w *simWorker) quorumError(what string, err error, op Op, resources []string, attempts int) (*QuorumError, error) {
	s := w.s
	var qe *QuorumError
	if !errors.As(err, &qe) {
		for _, reason := range []error{ErrTaken, ErrNoQuorum} {
			if errors.Is(err, reason) {
				s.failf("(8) %s of %s: %v without votes", what, w.name, err)
			}
		}
		return nil, nil
	}
	var reasons []error
	for _, reason := range []error{ErrTaken, ErrNoQuorum, ErrLost} {
		if errors.Is(err, reason) {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) != 1 {
		s.failf("(8) %s of %s: %v matches %v", what, w.name, err, reasons)
		return qe, nil
	}
	s.checkVotes(what+" of "+w.name, qe.Votes, op)
	if qe.Op != op || qe.Need != s.need || !slices.Equal(qe.Resources, resources) {
		s.failf("(8) %s of %s: op %s, need %d, resources %q", what, w.name, qe.Op, qe.Need, qe.Resources)
	}
	if op == OpLock && (qe.Attempt < 1 || qe.Attempt > attempts) || op != OpLock && qe.Attempt != 0 {
		s.failf("(8) %s of %s: attempt %d of %d", what, w.name, qe.Attempt, attempts)
	}
	return qe, reasons[0]
}

// checkLockError checks what Lock and TryLock can fail with.
func (w *simWorker) checkLockError(ctx context.Context, what string, err error, resources []string, start time.Time, life time.Duration, attempts int) {
	s := w.s
	n := len(s.nodes)
	ended := ctx.Err() != nil && errors.Is(err, ctx.Err())
	closed := errors.Is(err, ErrClosed)
	qe, reason := w.quorumError(what, err, OpLock, resources, attempts)
	switch {
	case closed && !w.c.isClosed():
		s.failf("%s of %s: %v", what, w.name, err)
	case qe == nil && !ended && !closed:
		s.failf("(8) %s of %s fails without a reason: %v", what, w.name, err)
	case qe == nil:
		// It ended before it asked anybody, or while it waited for somebody else of its
		// process to be answered: an attempt, and the time to begin to listen.
		patience := time.Duration(0)
		if what == "Lock" {
			patience = 3 * simTimeouts[len(simTimeouts)-1]
		}
		if now := time.Now(); now.After(start.Add(patience)) {
			s.failf("(8) %s of %s has no votes after %v: %v", what, w.name, now.Sub(start), err)
		}
	case errors.Is(reason, ErrLost):
		s.failf("(8) %s of %s: %v", what, w.name, err)
	}
	if qe == nil {
		return
	}
	// Votes may have come in between the decision and the error, but none goes
	// away; the events have them as they were.
	t := tallyVotes(qe.Votes)
	unheard := 0
	if w.c.sawSplit() {
		unheard = t.pending
	}
	switch {
	case errors.Is(reason, ErrTaken) && (t.no == 0 || t.no+t.unanswered+t.pending <= n-s.need):
		s.failf("(8) %s of %s is taken by these votes: %v", what, w.name, err)
	case errors.Is(reason, ErrNoQuorum) && !ended && !closed && t.unanswered+unheard <= n-s.need:
		// Or the quorum came too late.
		if t.yes < s.need || time.Since(start) < validity(life, DefaultDriftFactor) {
			s.failf("(8) %s of %s has no quorum by these votes: %v", what, w.name, err)
		}
	}
}

// checkExtendError checks what an extension can fail with.
func (w *simWorker) checkExtendError(ctx context.Context, l *simLock, err error, before, released, start time.Time) {
	s := w.s
	qe, reason := w.quorumError("Extend", err, OpExtend, l.Resources(), 0)
	lost := errors.Is(err, ErrLost)
	now := time.Now()
	switch {
	case errors.Is(err, ErrExpired):
		if now.Before(before) {
			s.failf("(4) Extend of %s before Until: %v", l.name, err)
		}
	case lost && released.IsZero():
		s.failf("(4) Extend of %s, which nobody has released: %v", l.name, err)
	case qe == nil && !lost && (ctx.Err() == nil || !errors.Is(err, ctx.Err())):
		s.failf("(8) Extend of %s fails without a reason: %v", l.name, err)
	case qe == nil && now.After(start):
		s.failf("(8) Extend of %s has no votes after %v: %v", l.name, now.Sub(start), err)
	case errors.Is(reason, ErrTaken):
		s.failf("(8) Extend of %s: %v", l.name, err)
	}
}

// checkUnlock checks the result of a release against the nodes.
func (w *simWorker) checkUnlock(l *simLock, err error) {
	s := w.s
	_, reason := w.quorumError("Unlock", err, OpUnlock, l.Resources(), 0)
	left := 0
	for _, n := range s.nodes {
		for _, key := range n.lockKeys() {
			if key.Value == l.Token() && !n.mayHave(l.Token()) {
				left++
				break
			}
		}
	}
	now, until := time.Now(), l.Until()
	switch {
	case err == nil && left > len(s.nodes)-s.need:
		s.failf("Unlock of %s succeeded but %d nodes have its keys", l.name, left)
	case err != nil && reason == nil:
		s.failf("(8) Unlock of %s fails without a reason: %v", l.name, err)
	case errors.Is(err, ErrExpired):
		if now.Before(until) {
			s.failf("(4) Unlock of %s before Until: %v", l.name, err)
		}
	case errors.Is(reason, ErrLost):
		// Until then its keys were there, and this holder has released it.
		if now.Before(until) {
			s.failf("Unlock of %s, which nobody can have taken away: %v", l.name, err)
		}
	case errors.Is(reason, ErrTaken):
		s.failf("(8) Unlock of %s: %v", l.name, err)
	}
}

// checkOverlaps checks (1): two locks on one resource are never held at the same
// time. A lock is held from its return to Until or its release.
func (s *sim) checkOverlaps() {
	s.mu.Lock()
	locks := slices.Clone(s.locks)
	s.mu.Unlock()
	end := func(l *simLock) time.Time {
		if released := l.releasedAt(); !released.IsZero() && released.Before(l.Until()) {
			return released
		}
		return l.Until()
	}
	slices.SortFunc(locks, func(a, b *simLock) int { return a.from.Compare(b.from) })
	for _, res := range s.resources {
		var last *simLock // the one that ends last of those before
		for _, l := range locks {
			if !slices.Contains(l.Resources(), res) {
				continue
			}
			if last != nil && l.from.Before(end(last)) && end(l).After(l.from) {
				s.failf("(1) %q is locked twice: %s from %v to %v and %s from %v to %v", res,
					last.name, s.offset(last.from), s.offset(end(last)), l.name, s.offset(l.from), s.offset(end(l)))
			}
			if last == nil || end(l).After(end(last)) {
				last = l
			}
		}
	}
}

// checkFences checks (2): of two locks on a resource with fences, one that was got
// before the other was asked for has the smaller one, and no two have the same.
// Called before nodes lose their data.
func (s *sim) checkFences() {
	s.mu.Lock()
	locks := slices.Clone(s.locks[s.checked:])
	if s.plan.wipe {
		s.checked = len(s.locks)
	}
	s.mu.Unlock()
	locks = slices.DeleteFunc(locks, func(l *simLock) bool { return l.Fence() == 0 })
	slices.SortFunc(locks, func(a, b *simLock) int { return cmp.Compare(a.Fence(), b.Fence()) })
	for _, res := range s.resources {
		var last *simLock   // the one with the next smaller fence
		var latest *simLock // the one that was asked for last, of those with smaller fences
		for _, l := range locks {
			switch {
			case !slices.Contains(l.Resources(), res):
				continue
			case last != nil && last.Fence() == l.Fence():
				s.failf("(2) %s and %s on %q have the same fence %d", last.name, l.name, res, l.Fence())
			case latest != nil && l.from.Before(latest.call):
				s.failf("(2) %s on %q was got before %s was asked for, but has the larger fence: %d and %d",
					l.name, res, latest.name, l.Fence(), latest.Fence())
			}
			last = l
			if latest == nil || l.call.After(latest.call) {
				latest = l
			}
		}
	}
}

// raises is how often counters had to be raised.
func (s *sim) raises() (n int64) {
	for _, c := range slices.Concat(s.clients, s.closed) {
		n += c.r.counters.raised.Load()
	}
	return n
}

// checkHandles checks (4) once more for all locks ever.
func (s *sim) checkHandles() {
	for _, l := range s.locks {
		_ = l.observeErr(s, "at the end")
	}
}

// checkAlive checks that a client can lock on all nodes after the faults.
func (s *sim) checkAlive(c *simClient) {
	start := time.Now()
	res := fmt.Sprintf("fresh-%d", c.id)
	lock, err := c.r.TryLock(s.t.Context(), []string{res}, time.Minute)
	if err != nil {
		s.failf("c%d cannot lock after the faults: %v", c.id, err)
		return
	}
	l := &simLock{Lock: lock, name: res, c: c, from: start}
	synctest.Wait()
	for _, n := range s.nodes {
		if why := n.stores(l, l.Until()); why != "" {
			s.failf("c%d cannot lock on %s after the faults: %s; %+v", c.id, n.Name(), why, c.r.Stats().Nodes)
		}
	}
	if err := l.Unlock(s.t.Context()); err != nil {
		s.failf("c%d cannot unlock after the faults: %v", c.id, err)
	}
	synctest.Wait()
	for _, n := range s.nodes {
		if _, ok := n.lockKeys()[s.prefix+res]; ok {
			s.failf("c%d cannot unlock on %s after the faults", c.id, n.Name())
		}
	}
	if took := time.Since(start); took > 0 {
		s.failf("c%d needed %v for a lock after the faults", c.id, took)
	}
}

// checkLeftovers checks (5). What may be left is a lock that was not released,
// and what a client could not clean up because it was closed while nodes did not
// answer: Close waits for them no longer than the node timeout.
func (s *sim) checkLeftovers() {
	for i, n := range s.nodes {
		for key, state := range n.lockKeys() {
			s.mu.Lock()
			c, l := s.owners[state.Value], s.byToken[state.Value]
			closing, rough, calm := time.Time{}, false, false
			if c != nil {
				closing, rough, calm = c.closing, c.rough, c.calm[i]
			}
			s.mu.Unlock()
			what := fmt.Sprintf("(5) %s has %q = %.6s for %v", n.Name(), key, state.Value, state.TTL)
			switch {
			case c == nil:
				s.failf("%s, which nobody has set", what)
			case state.TTL < 0 || state.TTL > simMaxTTL:
				s.failf("%s", what)
			case l != nil && l.releasedAt().IsZero(): // Abandoned.
			case n.mayHave(state.Value): // For one ttl; checkNothingStays sees the end of it.
			case !closing.IsZero() && (rough || !calm):
			case l != nil && !closing.IsZero() && !l.releasedAt().Before(closing): // Too late.
			case l == nil:
				s.failf("%s of an attempt of c%d that failed (closed: %v)", what, c.id, !closing.IsZero())
			default:
				s.failf("%s of %s, which was released at %v (closed: %v)", what, l.name, s.offset(l.releasedAt()), !closing.IsZero())
			}
		}
	}
}

// checkStats checks that nothing is outstanding after the recovery.
func (s *sim) checkStats(c *simClient) {
	st := c.r.Stats()
	held := 0
	s.mu.Lock()
	for _, l := range s.locks {
		if l.c == c && l.releasedAt().IsZero() && time.Now().Before(l.Until()) {
			held++
		}
	}
	s.mu.Unlock()
	if st.Held != held || st.Waiting != 0 || st.EventsDropped != 0 {
		s.failf("stats of c%d, which holds %d: %+v", c.id, held, st)
	}
	for _, n := range st.Nodes {
		if !n.Up || n.Err != nil || n.Backlog != 0 || n.PendingReleases != 0 {
			s.failf("(5) c%d after the recovery: %+v", c.id, n)
		}
	}
}

// checkNothingStays checks that all that is stored expires, the library's own
// keys included, and that idle connections stay up.
func (s *sim) checkNothingStays() {
	time.Sleep(2*simMaxTTL + time.Second)
	for _, n := range s.nodes {
		left, err := n.Keys()
		s.must(err)
		for key := range left {
			if strings.Contains(key, reservedMark+counterMark) { // It has a life of its own.
				delete(left, key)
			}
		}
		if len(left) > 0 {
			s.failf("(5) %s still has %v", n.Name(), left)
		}
	}
	for _, c := range s.clients {
		s.checkStats(c)
		s.checkAlive(c)
	}
}

// checkConnections checks (10): after Close no connection is open or borrowed.
// That no goroutine is left is checked by the end of the bubble.
func (s *sim) checkConnections() {
	for _, c := range s.closed {
		for i, p := range c.pools {
			if borrowed := p.ActiveCount() - p.IdleCount(); borrowed != 0 {
				s.failf("(10) c%d has %d connections to %s after Close", c.id, borrowed, s.nodes[i].Name())
			}
			s.must(p.Close())
		}
	}
	synctest.Wait()
	for _, n := range s.nodes {
		if open := n.Proxy().Conns(); open != 0 {
			s.failf("(10) %d connections to %s are open", open, n.Name())
		}
	}
}
