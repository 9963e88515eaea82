package redlock

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// This file is about the results of rounds, for their callers and for events and counters.

// A failure is why a round has failed, or was not waited for.
type failure struct {
	ended   error         // why nobody waited for the round
	amounts lease.Verdict // the verdict of its votes then
	votes   []Vote        // the votes then
}

// asVote returns a ballot as the vote that callers see.
func asVote(node string, b *lease.Ballot) Vote {
	v := Vote{Node: node, Took: b.Took, Err: b.Err, stance: b.Stance}
	if b.Holder != nil {
		v.Holder, v.Owner, v.HolderTTL = b.Holder.Digest, b.Holder.Owner, b.Holder.TTL
	}
	return v
}

// failLocked returns the round's failure, a new one if there is none yet. rd.mu is held.
func (rd *round) failLocked() *failure {
	if rd.failure == nil {
		rd.failure = new(failure)
	}
	return rd.failure
}

// take returns the round's result to the caller that has waited for it. A lock counts only if more than atLeast is left.
func (rd *round) take(atLeast time.Duration) lease.Verdict {
	now := time.Now()
	rd.mu.Lock()
	e := rd.rules.Take(now, atLeast)
	v := rd.rules.Verdict
	rd.carryOut(e, now)
	return v
}

// verdict returns how the round was decided.
func (rd *round) verdict() lease.Verdict {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.rules.Verdict
}

func (rd *round) votesLocked(ballots []lease.Ballot) []Vote {
	votes := make([]Vote, len(ballots))
	for i := range ballots {
		votes[i] = asVote(rd.r.nodes[i].Name, &ballots[i])
	}
	return votes
}

// fail counts the failed round and returns the error for it.
func (rd *round) fail(reason error) *QuorumError {
	rd.r.counts.failed(reason)
	return rd.quorumError(reason)
}

func (rd *round) quorumError(reason error) *QuorumError {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	var votes []Vote
	if rd.failure != nil {
		votes = rd.failure.votes
	}
	if votes == nil {
		votes = rd.votesLocked(rd.rules.Telling())
	}
	return &QuorumError{
		Op: rd.op(), Resources: slices.Clone(rd.claim.resources), Need: rd.r.need, Attempt: int(rd.attempt),
		Votes: votes, reason: reason, prefix: rd.r.defaults.prefix, cut: rd.rules.GivenUp(),
	}
}

// tellLocked counts a round's result, and sends its events. rd.mu is held.
func (rd *round) tellLocked(e lease.Effect) {
	if e.Has(lease.Raised) {
		rd.r.counts.Raised.Add(1)
	}
	if e.Has(lease.Split) {
		rd.r.counts.Splits.Add(1)
	}
	if e.Has(lease.Decided) {
		rd.eventLocked(EventDecided)
	}
	if e.Has(lease.Settled) {
		rd.eventLocked(EventSettled)
	}
}

// eventLocked sends the event of how the latest question was decided. rd.mu is held.
func (rd *round) eventLocked(kind EventKind) {
	err := verdictError(rd.rules.Latest)
	if rd.rules.Latest == lease.Undecided {
		err = rd.failLocked().ended
	}
	if !rd.r.wants(rd.ctx, kind, err) {
		return
	}
	e := Event{
		Kind: kind, Op: rd.op(), Resources: slices.Clone(rd.claim.resources), Attempt: int(rd.attempt),
		Votes: rd.votesLocked(rd.rules.Ballots), Took: time.Since(rd.rules.Start), Err: err, Owner: tokens.LabelOf(rd.claim.token()),
	}
	e.Overtaken = rd.lock != nil && rd.lock.released.begun.Load()
	if err == nil {
		e.Until = rd.rules.Until().Mono
		if rd.lock != nil {
			e.Until = rd.rules.Valid.Later(rd.rules.Until()).Mono // An extension never shortens.
		}
	}
	rd.r.send(rd.ctx, e)
}
