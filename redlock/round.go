package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/admission"
	"github.com/seed6c881748/redlock/internal/clockwatch"
	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// A round is one operation on all nodes in parallel. The caller goes on at the decision; the round itself ends,
// "settles", when the last node has answered or its timer has run out, and needs no goroutine for that: the nodes'
// readers and the timer drive it. Nodes whose answer is not enough can be asked again.
//
// A round is safe for concurrent use, but that one goroutine calls ask, again and wait.
type round struct {
	r         *core
	ctx       context.Context //nolint:containedctx // Only its values, for the hook.
	op        Op
	claim     *claim
	judge     func(t tally, need, n int) verdict
	start     time.Time
	asked     time.Duration       // when nodes were asked last, since start
	until     clockwatch.Deadline // lock and extend: a quorum that comes later is none
	extension *extension          // of an extension
	grants    *fences.Grants      // of a lock with fencing

	task     node.Task     // of the first requests
	admitted time.Duration // the call's node timeout while the round has a place; see admission

	decided chan struct{} // closed at the decision, or when the caller gave up

	// After a Lock's; never taken with a node's or another round's.
	mu       sync.Mutex
	latest   *node.Task     // what was asked last
	requests []node.Request // the latest, by node; without a task: not asked
	timer    *time.Timer    // of the latest requests
	attempt  int32          // constant
	over     bool           // set with decided
	verdict  verdict
	ballots  []ballot
	pending  int
	tally    tally
	err      error         // what the decision was, or why it was not waited for
	settled  chan struct{} // closed when no vote is pending; nil while nobody asks
}

// An extension is what a round has besides that extends a lock. It is apart to keep a round small.
type extension struct {
	validUntil clockwatch.Deadline    // the end of the lock's validity, before which the quorum must come, too
	want       func()                 // called when a node says that somebody waits
	overtaken  func() bool            // the lock's release has begun: that keys are gone is no loss
	settle     func(ballots []ballot) // called once when no vote is pending and the verdict was a yes
}

// A smallRound is a round with room for its requests, their encoding and votes: one allocation
// for the usual numbers of nodes. With the eight bytes that the allocator adds it just fits 1 152, and the next size is 1 280.
type smallRound struct {
	round

	requests [smallNodes]node.Request
	ballots  [smallNodes]ballot
	encoded  [184]byte // Enough for most commands.
}

// A ballot is a vote as a round keeps it: a Vote without the node's name.
type ballot struct {
	took   time.Duration
	err    error
	holder *node.Holder // nil: the node has named none
	stance node.Stance
}

func (b ballot) vote(node string) Vote {
	v := Vote{Node: node, Took: b.took, Err: b.err, stance: b.stance}
	if b.holder != nil {
		v.Holder, v.Owner, v.HolderTTL = b.holder.Digest, b.holder.Owner, b.holder.TTL
	}
	return v
}

// newRound prepares a round in which every node is asked cmd. The caller may
// preset votes with skip before it calls ask.
func (co *core) newRound(ctx context.Context, op Op, c *claim, cmd node.Command, kind node.Kind, judge func(tally, int, int) verdict, attempt int) *round {
	n := len(co.nodes)
	small := new(smallRound)
	rd := &small.round
	rd.r, rd.ctx, rd.op, rd.claim, rd.attempt, rd.judge = co, ctx, op, c, int32(attempt), judge
	rd.pending, rd.decided = n, make(chan struct{})
	rd.requests, rd.ballots = small.requests[:], small.ballots[:]
	if n > smallNodes {
		rd.requests, rd.ballots = make([]node.Request, n), make([]ballot, n)
	}
	rd.requests, rd.ballots = rd.requests[:n], rd.ballots[:n]
	rd.task.Kind, rd.task.Command, rd.task.Trace, rd.task.Receiver = kind, cmd, &c.Trace, rd
	rd.latest = &rd.task
	if cmd.Script != nil {
		link.Encode(&rd.task.Command, small.encoded[:0])
	}
	for i := range rd.ballots {
		rd.ballots[i].stance, rd.ballots[i].err = node.Pending, ErrPending
		rd.requests[i].Task, rd.requests[i].Index = &rd.task, uint16(i)
	}
	return rd
}

// skip presets the vote of a node that is not to be asked. Before ask only.
func (rd *round) skip(i int, b ballot) {
	rd.requests[i].Task = nil
	rd.enter(i, b)
}

// Receive counts node i's answer. Later ones, and those after the timer, are ignored: what they have left on the node
// is the release's business, which is queued behind the request on the same connection.
func (rd *round) Receive(i int, out node.Outcome, at time.Time) {
	if out.Unqueued != "" {
		rd.r.subscriptions.Complain(i, link.NoQueue, fmt.Errorf("not put in line: %s", out.Unqueued))
	}
	if out.Wanted {
		rd.extension.want()
	}
	rd.voteOn(nil, i, out, at)
}

// voteOn is Receive, if what was asked last is this task, or whatever it is if it is nil.
func (rd *round) voteOn(task *node.Task, i int, out node.Outcome, at time.Time) {
	rd.mu.Lock()
	if rd.ballots[i].stance != node.Pending || task != nil && task != rd.latest {
		rd.mu.Unlock()
		return
	}
	if rd.grants != nil {
		if rd.isLateGrant(i, out) {
			req := rd.requestLocked(i)
			rd.mu.Unlock()
			rd.send(req, time.Now())
			return
		}
		out = rd.grants.Weigh(i, out)
	}
	took := max(at.Sub(rd.start), 0) // A server may answer what it has not been asked.
	rd.enter(i, ballot{took: took, err: out.Err, holder: out.Holder, stance: out.Stance})
	rd.r.nodes[i].Votes.Add(&out)
	rd.judgeLocked(at)
	settled := rd.extension != nil && rd.pending == 0 && rd.verdict == granted
	rd.mu.Unlock()
	rd.r.nodes[i].Voted(&out, at)
	if settled {
		rd.extension.settle(rd.ballots) // Nobody writes to them any more.
	}
}

// isLateGrant reports whether the answer of node i, to what it was asked before a raise, is a grant with a counter
// below the fence. To wait for it until the next raise would be to wait for those that do not answer. rd.mu is held.
func (rd *round) isLateGrant(i int, out node.Outcome) bool {
	return out.Stance == node.Yes && out.Fence < rd.grants.Exact && rd.requests[i].Task == nil
}

// enter enters a vote for a node that is pending.
func (rd *round) enter(i int, b ballot) {
	rd.ballots[i] = b
	rd.pending--
	switch b.stance {
	case node.Yes:
		rd.tally.yes++
	case node.No, node.Gone:
		rd.tally.no++
	case node.Silent, node.Pending:
		rd.tally.unanswered++
	}
}

// judgeLocked draws the consequences of the votes. After a wait that was cut short there is no
// verdict any more: the call has reported something else. rd.mu is held.
func (rd *round) judgeLocked(now time.Time) {
	if !rd.over {
		if rd.verdict = rd.judge(rd.tally, rd.r.need, len(rd.ballots)); rd.verdict == granted {
			rd.verdict = rd.inTimeLocked(now)
		}
		if rd.verdict == undecided && rd.tally.no > 0 && rd.latest.Kind == node.LockRequest {
			rd.verdict = rd.withoutSlowLocked(now)
		}
		if rd.verdict == granted && rd.grants != nil {
			rd.grants.Agree(rd.r.need)
		}
		if rd.verdict != undecided {
			rd.decideLocked(rd.verdict.err())
		}
	}
	if rd.admitted != 0 {
		rd.leaveLocked(now)
	}
	if rd.pending == 0 {
		if rd.timer != nil {
			rd.timer.Stop()
		}
		rd.eventLocked(EventSettled, rd.err)
		if rd.settled != nil {
			close(rd.settled)
		}
	}
}

// inTimeLocked is what a quorum is worth that has been reached now.
func (rd *round) inTimeLocked(now time.Time) verdict {
	now, lead := rd.r.clock.At(now)
	switch {
	case rd.extension != nil && rd.extension.validUntil.Passed(now, lead):
		return expired
	case !rd.until.IsZero() && rd.until.Passed(now, lead):
		return noQuorum
	default:
		return granted
	}
}

func (rd *round) decideLocked(err error) {
	if rd.over {
		return
	}
	rd.over, rd.err = true, err
	rd.eventLocked(EventDecided, err)
	close(rd.decided)
}

func (rd *round) eventLocked(kind EventKind, err error) {
	if !rd.r.wants(rd.ctx, kind, err) || err == nil && rd.grants != nil && rd.grants.Fence == 0 {
		return // Without a fence it is no lock yet; what comes of it is told when nodes have raised their counters.
	}
	e := Event{
		Kind: kind, Op: rd.op, Resources: slices.Clone(rd.claim.resources), Attempt: int(rd.attempt),
		Votes: rd.votesLocked(), Took: time.Since(rd.start), Err: err, Owner: tokens.LabelOf(rd.claim.token()),
	}
	e.Overtaken = rd.extension != nil && rd.extension.overtaken()
	if err == nil {
		e.Until = rd.until.Mono
		if rd.extension != nil {
			e.Until = rd.extension.validUntil.Later(rd.until).Mono // An extension never shortens.
		}
	}
	rd.r.send(rd.ctx, e)
}

// wait returns at the decision, or with an error when ctx or the Redlock ended first. Votes still
// come in then, until the round settles.
func (rd *round) wait(ctx context.Context, closing <-chan struct{}) (ended error) {
	select {
	case <-rd.decided:
		return nil
	default:
	}
	select {
	case <-rd.decided:
		return nil
	case <-ctx.Done():
		ended = ctx.Err()
	case <-closing:
		ended = ErrClosed
	}
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.decideLocked(ended)
	return ended
}

// allVoted returns a channel that is closed when no vote is pending.
func (rd *round) allVoted() <-chan struct{} {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if rd.settled == nil {
		rd.settled = make(chan struct{})
		if rd.pending == 0 {
			close(rd.settled)
		}
	}
	return rd.settled
}

func (rd *round) result() (verdict, tally) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.verdict, rd.tally
}

// fence returns the fence on which a quorum has agreed, 0 if it has not, and how many grants there are.
func (rd *round) fence() (fence int64, granted int) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	_, _, granted = rd.grants.Of(rd.r.need)
	return rd.grants.Fence, granted
}

// copyVotes returns the votes as they are now, for the caller to keep.
func (rd *round) copyVotes() []Vote {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.votesLocked()
}

func (rd *round) votesLocked() []Vote {
	votes := make([]Vote, len(rd.ballots))
	for i, b := range rd.ballots {
		votes[i] = b.vote(rd.r.nodes[i].Name)
	}
	return votes
}

// fail counts the failed round and returns the error for it.
func (rd *round) fail(reason error) *QuorumError {
	rd.r.counters.failed(reason)
	return rd.quorumError(reason)
}

func (rd *round) quorumError(reason error) *QuorumError {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return &QuorumError{
		Op: rd.op, Resources: slices.Clone(rd.claim.resources), Need: rd.r.need, Attempt: int(rd.attempt),
		Votes: rd.votesLocked(), reason: reason, prefix: rd.r.defaults.prefix, cut: rd.verdict == undecided,
	}
}

func isStandstill(b ballot) bool { return errors.As(b.err, new(node.StandstillError)) }

// leaveLocked gives the round's place back when its votes decide it, or when none is
// pending. That the caller has given up does not: what it has asked is still the nodes'
// to do, and calls that end early would overload them. rd.mu is held.
func (rd *round) leaveLocked(now time.Time) {
	v := rd.judge(rd.tally, rd.r.need, len(rd.ballots))
	if v == undecided {
		v = rd.verdict // Of nodes that are not slow.
	}
	if v == undecided && rd.pending > 0 {
		return
	}
	s := admission.Sample{Took: now.Sub(rd.start), Timeout: rd.admitted, Answered: v == granted || v == taken}
	s.Late = v == noQuorum && s.Took >= rd.task.Limit && !slices.ContainsFunc(rd.ballots, isStandstill)
	hasQueue := func(b ballot) bool { return errors.Is(b.err, node.ErrBehind) }
	if v == noQuorum && !s.Late && slices.ContainsFunc(rd.ballots, hasQueue) {
		// Earlier rounds are late there, by what isSilent takes for patience, though this one was not asked.
		s.Took, s.Late = max(s.Timeout, rd.r.defaults.nodeTimeout), true
	}
	rd.r.admission.Leave(s, now)
	rd.admitted = 0
}
