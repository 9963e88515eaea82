package otelredlock

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed6c881748/redlock/redlock"
)

// instruments are the metrics: durations of calls that are measured as events come, and figures that
// are read when somebody collects them, which costs the calls nothing.
type instruments struct {
	meter                       metric.Meter
	acquire, wait, hold, extend metric.Float64Histogram

	stats []figure[redlock.Stats]     // of a Redlock
	nodes []figure[redlock.NodeStats] // of each node

	// These have attributes of their own.
	attempts, holdsEnded, votes, deaf, differ metric.Int64Observable

	rtt, oldestWait, oldestHold metric.Float64ObservableGauge

	all []metric.Observable
}

// A figure is a metric that is read from Stats.
type figure[S any] struct {
	name, unit, text string
	read             func(s *S) int64
	counts           bool // it never falls
	is               metric.Int64Observable
}

func level[S any](name, unit, text string, read func(s *S) int64) figure[S] {
	return figure[S]{name: name, unit: unit, text: text, read: read}
}

func counter[S any](name, unit, text string, read func(s *S) int64) figure[S] {
	return figure[S]{name: name, unit: unit, text: text, read: read, counts: true}
}

// statsFigures and nodeFigures are all of them: a new one is one line here.
func statsFigures() []figure[redlock.Stats] {
	type stats = redlock.Stats
	return []figure[stats]{
		level("redlock.lock.held", "{lock}", "Locks that are held.", func(s *stats) int64 { return int64(s.Held) }),
		level("redlock.lock.kept", "{lock}", "Locks that KeepAlive or Do extend.", func(s *stats) int64 { return int64(s.Kept) }),
		level("redlock.lock.waiting", "{call}", "Calls that wait for a lock.", func(s *stats) int64 { return int64(s.Waiting) }),
		counter("redlock.lock.splits", "{split}", "Attempts in which a split vote had to be resolved.", func(s *stats) int64 { return s.Splits }),
		counter("redlock.lock.repairs", "{repair}", "Times that a node was given back the keys of a held lock.", func(s *stats) int64 { return s.Repaired }),
		counter("redlock.process.standstills", "{standstill}", "Times that this process stood still while an answer was waited for.", func(s *stats) int64 { return s.Standstills }),
		counter("redlock.events.dropped", "{event}", "Events that were dropped: spans lack them.", func(s *stats) int64 { return s.EventsDropped }),
	}
}

func nodeFigures() []figure[redlock.NodeStats] {
	type node = redlock.NodeStats
	return []figure[node]{
		level("redlock.node.up", "{node}", "1 while the node is connected, 0 otherwise.", func(n *node) int64 { return boolean(n.Up) }),
		level("redlock.node.down", "{node}", "1 while the connection to the node is broken or cannot be made, 0 otherwise. A node that nobody has needed yet is neither up nor down.",
			func(n *node) int64 { return boolean(!n.Up && n.Err != nil && !errors.Is(n.Err, redlock.ErrClosed)) }),
		level("redlock.node.quarantined", "{node}", "1 while the node is connected and grants no lock, 0 otherwise.", func(n *node) int64 { return boolean(n.Up && n.Abstains != nil) }),
		level("redlock.node.unresponsive", "{node}", "1 while the node is connected and its votes do not come in time, or are errors, 0 otherwise.",
			func(n *node) int64 { return boolean(n.Up && n.Unresponsive != nil) }),
		level("redlock.node.backlog", "{request}", "Requests to the node that are queued or unanswered.", func(n *node) int64 { return int64(n.Backlog) }),
		counter("redlock.node.vanished", "{loss}", "Times that the node no longer had keys of a held lock that it had said it holds.", func(n *node) int64 { return n.Vanished }),
	}
}

// The bounds of the histograms, in seconds: a lock takes a round trip or the time of a wait, and is
// held for milliseconds to hours.
var (
	callBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	holdBounds = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
)

func newInstruments(m metric.Meter) (*instruments, error) {
	in := &instruments{meter: m, stats: statsFigures(), nodes: nodeFigures()}
	var failed []error
	histogram := func(to *metric.Float64Histogram, name, text string, bounds []float64) {
		var err error
		*to, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), metric.WithExplicitBucketBoundaries(bounds...))
		failed = append(failed, err)
	}
	figure := func(name, unit, text string, counts bool) (is metric.Int64Observable) {
		var err error
		if unit, text := metric.WithUnit(unit), metric.WithDescription(text); counts {
			is, err = m.Int64ObservableCounter(name, unit, text)
		} else {
			is, err = m.Int64ObservableUpDownCounter(name, unit, text)
		}
		failed, in.all = append(failed, err), append(in.all, is)
		return is
	}
	gauge := func(to *metric.Float64ObservableGauge, name, text string) {
		var err error
		*to, err = m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
		failed, in.all = append(failed, err), append(in.all, *to)
	}
	histogram(&in.acquire, "redlock.lock.acquire.duration", "Time that calls took to get a lock, or to fail.", callBounds)
	histogram(&in.wait, "redlock.lock.wait.duration", "Time until the attempt that got the lock began: next to nothing for a lock that was free.", callBounds)
	histogram(&in.hold, "redlock.lock.hold.duration", "Time for which locks were held, until they were released.", holdBounds)
	histogram(&in.extend, "redlock.lock.extend.duration", "Time that extensions took.", callBounds)
	for i := range in.stats {
		f := &in.stats[i]
		f.is = figure(f.name, f.unit, f.text, f.counts)
	}
	for i := range in.nodes {
		f := &in.nodes[i]
		f.is = figure(f.name, f.unit, f.text, f.counts)
	}
	in.attempts = figure("redlock.lock.attempts", "{attempt}", "Attempts to lock, by how their call has ended.", true)
	in.holdsEnded = figure("redlock.hold.ended", "{hold}", "Ends of locks, by cause: of what KeepAlive and Do held when it ends, of others when Unlock has shown how.", true)
	in.votes = figure("redlock.node.votes", "{vote}", "Votes, by node and by what they said.", true)
	in.differ = figure("redlock.sets.differing", "{set}", "Sets of nodes of other clients that differ from this one's, and nodes that are one server; where the quorums of both always meet, no lock is at risk.", false)
	in.deaf = figure("redlock.node.deaf", "{node}", "1 while the node is connected and calls that wait cannot hear of releases from it, 0 otherwise. It is seen when a call waits.", false)
	gauge(&in.rtt, "redlock.node.rtt", "Round-trip time of requests to the node, averaged.")
	gauge(&in.oldestWait, "redlock.lock.wait.oldest", "Time for which the longest of the calls has waited that wait now behind a holder; 0 if none does.")
	gauge(&in.oldestHold, "redlock.lock.held.oldest", "Time for which the longest of the locks has been held that are held now; 0 if there is none.")
	return in, errors.Join(failed...)
}

// End has a call's durations and counts in the metrics; see [redlock.Tracer].
func (t *Telemetry) End(ctx context.Context, e redlock.Event) {
	in, k, o := t.instruments, t.classes.class(e.Resources), outcomeOf(e.Err)
	switch e.Op {
	case redlock.OpLock:
		k.attempts[o].Add(int64(e.Attempt))
		in.acquire.Record(ctx, e.Took.Seconds(), k.recorded[o]...)
		if o == success {
			in.wait.Record(ctx, e.Waited.Seconds(), k.recorded[o]...)
		}
	case redlock.OpExtend:
		in.extend.Record(ctx, e.Took.Seconds(), k.recorded[o]...)
	case redlock.OpUnlock:
		in.hold.Record(ctx, e.Held.Seconds(), k.recorded[o]...)
		if !e.Kept && (o == success || o == lost || o == expired) {
			k.ended[o].Add(1)
		}
	default: // A Do's lock is measured, and its hold.
	}
}

// observe has the figures of r read when metrics are collected.
func (in *instruments) observe(r *redlock.Redlock, known *classes) (metric.Registration, error) {
	nodes := make([]nodeSets, 0)
	for _, n := range r.Stats().Nodes {
		nodes = append(nodes, newNodeSets(n.Node))
	}
	read := func(_ context.Context, o metric.Observer) error {
		s := r.Stats()
		waits, holds := make(oldest), make(oldest)
		for _, call := range r.WaitingCalls() {
			if !errors.Is(call.Err, redlock.ErrNoQuorum) { // Which waits for nodes, behind no holder.
				waits.see(known.class(call.Resources), call.Since)
			}
		}
		for _, lock := range r.HeldLocks() {
			holds.see(known.class(lock.Resources), lock.Since)
		}
		for _, f := range in.stats {
			o.ObserveInt64(f.is, f.read(&s))
		}
		meet := 0
		for _, d := range s.Sets {
			if d.QuorumsMeet {
				meet++
			}
		}
		o.ObserveInt64(in.differ, int64(meet), quorumsMeet[true])
		o.ObserveInt64(in.differ, int64(len(s.Sets)-meet), quorumsMeet[false])
		deaf := deafNodes(r.RecentEvents())
		for i, n := range s.Nodes {
			nodes[i].observe(in, o, n)
			o.ObserveInt64(in.deaf, boolean(n.Up && !n.Listens && deaf[n.Node]), nodes[i].node)
		}
		known.each(func(k *class) {
			o.ObserveFloat64(in.oldestWait, waits[k].Seconds(), k.observed[success]...)
			o.ObserveFloat64(in.oldestHold, holds[k].Seconds(), k.observed[success]...)
			for i := range outcomes {
				if n := k.attempts[i].Load(); n > 0 || fromZero(outcome(i)) {
					o.ObserveInt64(in.attempts, n, k.observed[i]...)
				}
				if n := k.ended[i].Load(); n > 0 || fromZero(outcome(i)) {
					o.ObserveInt64(in.holdsEnded, n, k.causes[i]...)
				}
			}
		})
		return nil
	}
	return in.meter.RegisterCallback(read, in.all...)
}

// quorumsMeet are the attributes of sets that differ.
var quorumsMeet = map[bool]metric.MeasurementOption{
	true:  metric.WithAttributes(attribute.Bool(keyMeet, true)),
	false: metric.WithAttributes(attribute.Bool(keyMeet, false)),
}

// oldest is for how long the longest of some things has been, by class.
type oldest map[*class]time.Duration

func (o oldest) see(k *class, since time.Time) { o[k] = max(o[k], time.Since(since)) }

// deafNodes are those of which it was told, since they were connected last, that nothing is heard of releases.
func deafNodes(events []redlock.Event) map[string]bool {
	deaf := make(map[string]bool)
	for i := range events {
		switch e := &events[i]; e.Kind {
		case redlock.EventPolling:
			deaf[e.Node] = true
		case redlock.EventNodeDown:
			delete(deaf, e.Node)
		default:
		}
	}
	return deaf
}

// fromZero reports whether a count is shown before there is anything to count: in a series that begins
// with its first loss, Prometheus sees no increase, and no alert comes.
func fromZero(o outcome) bool { return o == success || outcomes[o].failure && o != other }

// nodeSets are the attributes of one node's figures.
type nodeSets struct {
	node  metric.MeasurementOption
	votes map[string]metric.MeasurementOption // by what they said
}

func newNodeSets(name string) nodeSets {
	node := attribute.String(keyNode, validText(name))
	s := nodeSets{node: metric.WithAttributes(node), votes: make(map[string]metric.MeasurementOption)}
	for vote := range votesOf(&redlock.NodeStats{}) {
		s.votes[vote] = metric.WithAttributes(node, attribute.String(keyVote, vote))
	}
	return s
}

// votesOf are the counts of a node's votes by what they said.
func votesOf(n *redlock.NodeStats) map[string]int64 {
	v := n.Votes
	return map[string]int64{
		"yes": v.Yes, "taken": v.Taken, "lost": v.Lost, "timeout": v.Timeout, "overloaded": v.Overloaded,
		"quarantined": v.Quarantined, "failed": v.Failed,
	}
}

func (s nodeSets) observe(in *instruments, o metric.Observer, n redlock.NodeStats) {
	for _, f := range in.nodes {
		o.ObserveInt64(f.is, f.read(&n), s.node)
	}
	if n.Up && n.RTT > 0 { // Of a node that is away it says nothing any more.
		o.ObserveFloat64(in.rtt, n.RTT.Seconds(), s.node)
	}
	for vote, count := range votesOf(&n) {
		o.ObserveInt64(in.votes, count, s.votes[vote])
	}
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
