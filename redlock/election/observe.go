package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// A Leader is who leads. The zero one is nobody.
type Leader struct {
	Owner  string // its label, if it has one ([redlock.WithOwner])
	Holder string // the digest of its lock, another one for each term; see [redlock.Lock.Holder]
}

// Leader asks all nodes who leads, and counts by quorum. The answer may be old when it arrives. The error matches
// ErrNoQuorum if nobody can tell, as too few nodes answer; or it is that of [redlock.Redlock.Inspect].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	in, err := e.r.Inspect(ctx, e.name)
	if err != nil || in.Held {
		return Leader{in.Owner, in.Holder}, err
	}
	silent, most, holders := 0, 0, map[string]int{}
	for _, n := range in.Nodes {
		if n.Err != nil {
			silent++
		} else if n.Holder != "" {
			holders[n.Holder]++
			most = max(most, holders[n.Holder])
		}
	}
	if most+silent < in.Need {
		return Leader{}, nil // Whatever the silent nodes have.
	}
	return Leader{}, fmt.Errorf("election %q: %w: %d of %d nodes answered, which does not tell who leads",
		e.name, redlock.ErrNoQuorum, len(in.Nodes)-silent, len(in.Nodes))
}

// Observe returns who leads, then each change: for leader, err := range e.Observe(ctx). While the loop waits, it asks
// the nodes once a second, or once in a third of the ttl if that is shorter. So a loop that takes its time gets who
// leads now, and no backlog. Nothing runs once the loop is left.
//
// ErrNoQuorum, as of Leader, is a change like others, once it was seen twice in a row. Any other error is the last that
// the loop gets: that of ctx, or ErrClosed.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		told, unknown, none, doubts := Leader{}, false, true, 0
		for {
			now, err := e.Leader(ctx)
			if doubts++; err == nil {
				doubts = 0
			}
			last := err != nil && !errors.Is(err, redlock.ErrNoQuorum)
			if last || doubts != 1 && (none || now != told || unknown != (err != nil)) {
				told, unknown, none = now, err != nil, false
				if !yield(now, err) || last {
					return
				}
			}
			select {
			case <-time.After(min(e.ttl/3, time.Second)):
			case <-ctx.Done(): // The next look returns its error.
			}
		}
	}
}
