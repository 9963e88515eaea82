package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// An acquisition is one call of Lock or TryLock.
type acquisition struct {
	r         *core
	o         *options // not changed
	resources []string
	keys      []any
	ttl       time.Duration
	began     time.Time // the call, for the hook
	fencing   *fencing  // nil: without

	// Of a Lock that waits, set before each attempt.
	line   *queueKeys // what it takes to get in line on the nodes; nil: it does not
	waited time.Time
	byTurn bool // this attempt gives way to whom a free resource is reserved for
}

// lockCommand is what the attempt asks the nodes.
func (a *acquisition) lockCommand(c *claim) node.Command {
	if a.line == nil {
		return c.lockCommand()
	}
	// A line must outlive the wait until its sessions come back to it.
	life := max(2*(a.o.retryDelay+a.o.retryJitter), minLine)
	return queueCommand(a.line, c.args, c.fencing, time.Since(a.waited), life, a.byTurn)
}

// minLine is the least life of a line, from when somebody last got in.
const minLine = time.Minute

// endedBy is the error of a call that was ended by its context or by Close.
func (a *acquisition) endedBy(cause, last error) error {
	if cut := (*waitError)(nil); errors.As(last, &cut) {
		return last
	}
	return &waitError{op: OpLock, resources: a.resources, cause: cause, last: last}
}

// attempt makes one attempt. Where clients that began together have split the
// votes so that nobody has a quorum, it resolves that too: the one with most
// votes keeps them and asks for the rest, the others give theirs back and look
// again after a random time, within the node timeout. Plain Redlock fails there,
// for all of them; see split.go.
func (a *acquisition) attempt(ctx context.Context, number int) (*Lock, error) {
	if ended := a.r.connected(ctx); ended != nil {
		return nil, a.unasked(ctx, number, ended)
	}
	waited, err := a.r.admission.Enter(ctx, a.o.nodeTimeout)
	if err != nil {
		return nil, a.turnedAway(ctx, err, number)
	}
	var split *split
	for {
		b := a.newBid(ctx, number, split)
		b.admitted, b.waited = split == nil, waited
		b.ask()
		l, err := b.outcome(ctx)
		if !errors.Is(err, errSplit) {
			return l, err
		}
		if split == nil {
			a.r.counters.splits.Add(1)
			split = newSplit(a.o.nodeTimeout, time.Since(b.start))
			b.split = split
		}
		if l, err = split.contend(ctx, b); !errors.Is(err, errSplit) {
			return l, err
		}
		// Somebody else leads: what this bid has won was given back. Before the next
		// look, the leader gets the time of a round trip or two.
		if ended := a.r.sleep(ctx, split.pause()); ended != nil {
			return nil, a.endedBy(ended, b.round.quorumError(ErrTaken))
		}
		if split.over() {
			return nil, b.round.fail(ErrTaken)
		}
	}
}
