package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// A Link is one Redis master with the pipeline to it. It is safe for concurrent
// use. Its goroutine starts when the node is first needed and ends with Close.
type Link struct {
	Config
	Votes Votes

	missing atomic.Bool  // the rules' HasMisses
	takes   atomic.Int64 // in ns; see Takes
	mute    atomic.Bool  // it gave no answer to the last request for a vote

	Source *conn.Source // of its connections

	subscription *subscription

	ctx    context.Context //nolint:containedctx // Ends with the link; borrowings derive from it.
	cancel context.CancelFunc
	done   chan struct{} // closed when the link's goroutine has ended

	// Not held together with that of a Lock, a round or another link. Report, trace owners and dialect are called with
	// it held, receivers never.
	mu       sync.Mutex
	work     sync.Cond   // wakes the writer: a request is queued, or the pipeline is over
	rules    *node.Node  // they decide
	pipeline *pipeline   // while up
	timer    *time.Timer // fires when releases are due; nil before the first one
	connects int64       // counter: attempts to connect

	caller *pipeline // served by a caller that is alone; only that caller reads it

	aside sync.WaitGroup // goroutines for connections that do not serve yet, or no longer
}

// New returns the link to a node that was never connected to. Add it to Subscriptions before it is used.
func New(c Config) *Link {
	c.ConnectTimeout = max(node.ConnectLimit(c.Node.Timeout), c.ConnectTimeout)
	l := &Link{Config: c, Source: conn.NewSource(c.Pool), done: make(chan struct{})}
	l.Node.Epoch, l.Node.Code = time.Now(), conn.ErrorCode
	l.rules = node.New(l.Node)
	l.work.L = &l.mu
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// finish carries out the rules' last steps, and unlocks the mutex. It follows each step.
func (l *Link) finish() {
	n := l.rules
	for _, f := range n.Facts() {
		l.hear(f)
	}
	if takes := int64(n.Takes()); takes != l.takes.Load() {
		l.takes.Store(takes)
	}
	if open := n.HasMisses(); open != l.missing.Load() {
		l.missing.Store(open)
	}
	if p := l.pipeline; p != nil {
		if n.Queued(p.c) > 0 && !p.writing { // A writing goroutine looks again.
			l.work.Signal()
		}
		if d, set := n.Alarm(); set {
			p.watchdog.Reset(d)
		}
		l.arm()
	}
	l.mu.Unlock()
}

// hear acts on a fact, and passes it on. l.mu is held.
func (l *Link) hear(f node.Fact) {
	switch f.What {
	case node.Wanted:
		go l.run()
	case node.Joined:
		l.Readiness.add(1)
		l.subscription.again()
	case node.Left:
		l.Readiness.add(-1)
	case node.Stalled:
		l.Readiness.add(0)
	default:
		l.Report(f)
	}
}

// arm sets the timer to when releases are due.
func (l *Link) arm() {
	at, set := l.rules.Due()
	switch {
	case !set:
	case l.timer != nil:
		l.timer.Reset(time.Until(at))
	default:
		l.timer = time.AfterFunc(time.Until(at), func() {
			l.mu.Lock()
			l.rules.Tick(time.Now())
			l.finish()
		})
	}
}

// Enqueue hands a request to the node; see [node.Node.Enqueue].
func (l *Link) Enqueue(q *node.Request, now time.Time) error {
	l.mu.Lock()
	defer l.finish()
	return l.rules.Enqueue(q, now)
}

// Release gives up the token on this node in the background. Nothing is sent where nothing can have been left.
func (l *Link) Release(t *node.Trace, index int) {
	l.mu.Lock()
	defer l.finish()
	l.rules.Release(t, index, time.Now())
}

// Withdraw takes back a request that has not been written. Releases stay.
func (l *Link) Withdraw(q *node.Request) {
	l.mu.Lock()
	defer l.finish()
	l.rules.Withdraw(q)
}

// Aside asks the node something that no call waits for; see [node.Node.Aside].
func (l *Link) Aside(i int, cmd node.Command, r node.Receiver) (sent bool) {
	l.mu.Lock()
	defer l.finish()
	return l.rules.Aside(i, cmd, r, time.Now())
}

// RefusedElsewhere notes that an attempt was turned away while the node is silent; see [node.Node.RefusedElsewhere].
func (l *Link) RefusedElsewhere(now time.Time, patience time.Duration) {
	l.mu.Lock()
	defer l.finish()
	l.rules.RefusedElsewhere(now, patience)
}

// LookAgain makes the connection anew now, as others find another server at the address. It may be called any number of
// times.
func (l *Link) LookAgain() {
	l.mu.Lock()
	defer l.finish()
	l.rules.LookAgain(time.Now())
}

// Voted takes a vote that a round has counted, or the error for which there is none.
func (l *Link) Voted(out *node.Outcome, at time.Time) {
	silent := out.Stance == node.Silent
	if silent && l.rules.IsOwn(out.Err) {
		return
	}
	if l.mute.Load() != silent {
		l.mute.Store(silent)
	}
	if !silent && !l.missing.Load() {
		return // Mostly. Nothing to note, and no mutex to take.
	}
	l.mu.Lock()
	defer l.finish()
	l.rules.Voted(out, at)
}

// Takes returns how long the node has recently taken to answer; see [node.Node.Takes].
func (l *Link) Takes() time.Duration { return time.Duration(l.takes.Load()) }

// IsVoting reports whether the node is connected, has answered since then, and answered the last request for a vote.
func (l *Link) IsVoting() bool { return l.takes.Load() > 0 && !l.mute.Load() }

// Listens reports whether this process listens to the node's messages.
func (l *Link) Listens() bool { return l.subscription.isUp() }

// Speaks returns the dialect on the node's connection; nil without one.
func (l *Link) Speaks() node.ConnDialect {
	l.mu.Lock()
	defer l.finish()
	return l.rules.Speaks()
}

// Has reports whether the token has the mark m of this node.
func (l *Link) Has(t *node.Trace, index int, m node.Mark) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return t.Has(index, m)
}

// Unreached returns the vote of a node that was not asked because it may not be connected yet; nil if it is.
func (l *Link) Unreached() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rules.Unreached()
}

// Reachable returns how many of the nodes are connected, and how many are being connected to without a known failure.
// It begins to connect those that nobody has needed yet.
func Reachable(links []*Link) (up, connecting int) {
	for _, l := range links {
		l.mu.Lock()
		isUp, isConnecting := l.rules.Reach()
		l.finish()
		switch {
		case isUp:
			up++
		case isConnecting:
			connecting++
		}
	}
	return up, connecting
}

// Stats returns the node's state and counters, except its votes. It does no I/O.
func (l *Link) Stats() node.Stats {
	listens := l.Listens()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.rules.Stats(time.Now())
	s.Node, s.Listens, s.Connects = l.Name, listens, l.connects
	return s
}
