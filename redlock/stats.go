package redlock

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// Stats is a snapshot of a Redlock's state and counters. It belongs to the caller.
type Stats struct {
	Nodes   []NodeStats // in the order given to New
	Held    int         // locks that were acquired and are neither released, lost nor expired
	Kept    int         // of those, the locks that KeepAlive or Do extend
	Asking  int         // attempts whose requests are with the nodes and undecided
	Queued  int         // attempts that wait for a place, because Window attempts are asking
	Window  int         // how many attempts may ask at the same time; follows how soon the nodes answer
	Waiting int         // Lock calls that wait: refused, or behind others of this process

	// Sets are the clients whose set of nodes differs from this one's, as far as they have a node in common, and
	// this client's addresses that lead to one server; see EventSetsDiffer. Nobody is refused because of it.
	Sets []SetDifference

	// OldestWait is for how long the longest of the calls in WaitingCalls has waited; 0 without any. A semaphore's
	// calls of Lock, one for each slot that it looks for, have waited for as long as the first in its line has.
	OldestWait time.Duration

	// Counters since New.
	Acquired      int64 // locks that were acquired
	Passed        int64 // of these, those that were passed on by another caller of this process; see WithTurn
	Extended      int64 // extensions that succeeded
	Repaired      int64 // times that a node was given back the keys of a held lock that it had lost
	Unlocked      int64 // releases that returned nil
	Taken         int64 // attempts that failed with ErrTaken
	NoQuorum      int64 // rounds of any operation that failed with ErrNoQuorum and were not cut short by a context
	Overloaded    int64 // attempts that were turned away before they had asked any node; not in NoQuorum
	Lost          int64 // extensions and releases that found the lock lost or expired
	Splits        int64 // attempts in which a split vote had to be resolved
	Raised        int64 // attempts with fencing that took one more round trip, as the nodes' counters differed
	Woken         int64 // attempts that a release set off
	Standstills   int64 // times that this process did not run, or not its timers, while an answer was waited for: for 50 ms or more
	EventsDropped int64 // events that were dropped because the hook was too slow

	// HoldsEnded counts why holds by KeepAlive and Do have ended, as the causes of their contexts
	// say. Lost and Expired are losses: work may have gone on without a lock.
	HoldsEnded struct {
		Released int64 // Unlock was called, by Do included, and has not found the lock lost
		Expired  int64 // ErrExpired
		Lost     int64 // ErrLost, also where only the release has shown it
		StopTime int64 // ErrStopTime
		MaxHold  int64 // ErrMaxHold
		Closed   int64 // ErrClosed
	}
}

// NodeStats is the state of the connection to one node, and its counters since New.
type NodeStats struct {
	Node            string // the node's name
	Up              bool   // the node is connected and ready
	Listens         bool   // Lock calls that wait hear of releases from this node
	Err             error  // why the node is not up; nil while it is, and as long as no attempt to connect has failed
	Abstains        error  // why the node is up and grants no lock, as last heard: matches ErrQuarantined or ErrConfigMismatch
	Backlog         int    // requests that are queued or unanswered
	Unknown         int64  // counter: requests whose outcome a broken connection left unknown, and which may come late
	Cleaned         int64  // counter: releases that a broken connection left open and a later connection carried out
	PendingReleases int    // releases that the node has not carried out: it is away, or has refused them
	Repeats         int    // releases that are sent again for a while, as something of their lock may arrive late
	RepeatsDropped  int64  // releases that were dropped because too many were to be repeated
	Connects        int64  // counter: attempts to connect

	// Unresponsive is why the node counts as unavailable though it is connected, so that Up stays true; nil if it
	// does not. None of its last votes, at least three in a row and over at least 3 s, came in time, or they were
	// errors of the server, such as OOM, LOADING and MISCONF. It is nil again when as many votes in a row, over as
	// long, have come in time, whatever they say. After the server has refused a write (OOM, MISCONF, NOREPLICAS,
	// READONLY), votes do not end it: the server goes on to answer what it need not write for. Where votes are
	// missing, a write is tried every few seconds, on a connection that is idle otherwise and after such a refusal on
	// any; how it ends counts as a vote here. A node in quarantine does vote: see Abstains. Attempts with
	// ErrOverloaded say nothing about the node. Locks are asked for as always: only this report depends on it.
	Unresponsive error

	// Vanished counts how often the node no longer had the keys of a lock that it had said it holds,
	// although they could not have expired yet, and this client had not released them: the node was
	// flushed, restarted without its data or evicts keys, its clock was set forward, or the keys were
	// deleted by hand. It is noticed at the next extension or at the release, and counted once for each
	// loss. A release by another process, or by [Redlock.Release], cannot be told from that.
	Vanished   int64
	VanishedAt time.Time // when that was last noticed; zero: never

	// RTT is how long a request takes from its writing to its reply, as a moving average over
	// about the last ten; 0 before the first reply. It stays as it was while the node is silent.
	RTT time.Duration

	// Votes counts what the node has answered in rounds of all operations. A vote that came after its
	// round was over is not counted, nor is a request that was withdrawn before it was sent.
	Votes struct {
		Yes         int64
		Taken       int64 // another token held a resource
		Lost        int64 // the key was gone; at a release, also if the node had never granted the lock, or somebody else has it
		Timeout     int64 // ErrNodeTimeout
		Overloaded  int64 // ErrOverloaded; of attempts that asked other nodes
		Quarantined int64 // ErrQuarantined and ErrConfigMismatch
		Failed      int64 // not connected, an error reply, or any other reason for no answer
	}
}

// Stats returns a snapshot of what is going on. It does no I/O and may be called at any time, also after Close.
func (r *Redlock) Stats() Stats {
	must(r.invalid())
	s := Stats{
		Held: r.watch.Count(), Kept: r.watch.Kept(), EventsDropped: r.events.Dropped(), OldestWait: r.waits.Oldest(), Sets: r.notes.standing(),
	}
	count(&s, &r.counts)
	s.Asking, s.Queued, s.Window = r.admission.Stats()
	for _, n := range r.nodes {
		s.Nodes = append(s.Nodes, nodeStats(n))
	}
	return s
}

func nodeStats(l *link.Link) NodeStats {
	s := NodeStats(l.Stats())
	count(&s.Votes, &l.Votes)
	return s
}

// count sets fields to the counters of the same name.
func count(fields, counters any) {
	to, from := reflect.ValueOf(fields).Elem(), reflect.ValueOf(counters).Elem()
	for i := range from.NumField() {
		name, field := from.Type().Field(i).Name, from.Field(i).Addr().Interface()
		if n, is := field.(*atomic.Int64); is {
			to.FieldByName(name).SetInt(n.Load())
		} else {
			count(to.FieldByName(name).Addr().Interface(), field)
		}
	}
}

// A HeldLock describes a lock that this Redlock holds, without its token.
type HeldLock struct {
	Resources []string  // sorted
	Since     time.Time // the start of the attempt that got the lock
	Extended  time.Time // the start of the last extension that succeeded; Since before the first
	Until     time.Time // see [Lock.Until]
	Fence     int64     // 0 without WithFencing
	Owner     string    // the label of WithOwner; empty without
	Holder    string    // the digest of the token, as in votes and events
	Kept      bool      // KeepAlive or Do extend it
}

// HeldLocks returns the locks that were acquired and are neither released, lost nor expired, the
// oldest first: those that Stats counts as Held. It does no I/O, and may also be called after Close.
// What it returns belongs to the caller.
func (r *Redlock) HeldLocks() []HeldLock {
	must(r.invalid())
	leases := r.watch.Held()
	locks := make([]HeldLock, 0, len(leases))
	for _, l := range leases {
		if h, held := l.(*Lock).describe(); held {
			locks = append(locks, h)
		}
	}
	slices.SortFunc(locks, func(a, b HeldLock) int {
		return cmp.Or(a.Since.Compare(b.Since), slices.Compare(a.Resources, b.Resources), cmp.Compare(a.Holder, b.Holder))
	})
	return slices.CompactFunc(locks, func(a, b HeldLock) bool { return a.Holder == b.Holder })
}

func (l *Lock) describe() (h HeldLock, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.errLocked(time.Now()) != nil {
		return HeldLock{}, false
	}
	return HeldLock{
		Resources: slices.Clone(l.claim.resources), Since: l.rules.Start, Extended: l.rules.Extended, Until: l.rules.Until.Mono,
		Fence: l.Fence(), Owner: l.o.owner, Holder: tokens.Digest(l.claim.token()), Kept: l.hold != nil && l.hold.rules.Cause == lease.Undecided,
	}, true
}

// A WaitingCall describes a call of Lock or Do that waits for a lock.
type WaitingCall struct {
	Resources []string  // sorted
	Owner     string    // the label of WithOwner that the lock will have; empty without
	Since     time.Time // when the call began to wait
	Attempts  int       // how many it has made
	Position  int       // its place in the line of this process, as in EventWaiting; 0 for one that polls
	Err       error     // what its last attempt saw, or a later one of a call ahead of it: ErrTaken, ErrNoQuorum, or nil before the first

	Holder      string // with ErrTaken, the digest of a holder's token
	HolderOwner string // and the label of WithOwner of that holder

	// HolderSince is since when, at least, that holder has the lock, as far as this process knows: since its calls
	// that wait have been refused for it, or HeldLock.Since if it holds the lock itself. It is zero without Holder.
	HolderSince time.Time
}

// WaitingCalls returns the calls of Lock and Do that wait, the longest wait first. It does no I/O, and
// may also be called after Close. What it returns belongs to the caller.
func (r *Redlock) WaitingCalls() []WaitingCall {
	must(r.invalid())
	found := r.waits.All(r.line, see)
	calls := make([]WaitingCall, len(found))
	own := r.heldSince(len(found) > 0)
	for i, c := range found {
		calls[i] = WaitingCall(c)
		calls[i].Resources = slices.Clone(c.Resources)
		if since, held := own[c.Holder]; held {
			calls[i].HolderSince = since
		}
	}
	return calls
}

// heldSince returns since when this process has held its locks, by the digests of their tokens; nil unless wanted.
func (r *Redlock) heldSince(wanted bool) map[string]time.Time {
	if !wanted {
		return nil
	}
	locks := r.watch.Held()
	since := make(map[string]time.Time, len(locks))
	for _, l := range locks {
		l := l.(*Lock)
		since[tokens.Digest(l.claim.token())] = l.rules.Start
	}
	return since
}

// RecentEvents returns the latest unusual events, at most 64 of nodes and 64 of calls, in the order in which they
// happened. They are kept even without a hook, so that you can find out later what went wrong. They are
//
//   - all events of nodes, EventOverloaded and EventHoldAtRisk;
//   - EventHoldEnded, EventReleased and EventExtended with an error;
//   - EventNotAcquired for lack of a quorum, but not for a taken lock or for a call that was turned
//     away.
//
// Of EventNotAcquired and of EventExtended, there is one a second at most. Without a hook, Call is 0
// in all of them, and Took is 0 in EventNotAcquired. RecentEvents does no I/O, and may also be called
// after Close. What it returns belongs to the caller.
func (r *Redlock) RecentEvents() []Event {
	must(r.invalid())
	events := slices.Concat(r.recentNodes.All(), r.recentCalls.All())
	for i := range events {
		events[i] = events[i].clone()
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return events
}

func (r *Redlock) text() string {
	if err := r.invalid(); err != nil {
		return plain(err)
	}
	stats := r.Stats()
	nodes := make([]string, len(stats.Nodes))
	for i, n := range stats.Nodes {
		switch {
		case n.Unresponsive != nil:
			nodes[i] = n.Node + " unresponsive"
		case n.Up:
			nodes[i] = n.Node + " up"
		case n.Err != nil:
			nodes[i] = n.Node + " down"
		default:
			nodes[i] = n.Node + " not connected yet"
		}
	}
	return fmt.Sprintf("redlock over %s, quorum %d (%s): %d held, %d waiting",
		brief.Count(len(nodes), "node"), r.need, strings.Join(nodes, ", "), stats.Held, stats.Waiting)
}

// Format prints, whatever the verb, which nodes are up and how many locks there are. It does no I/O.
func (r *Redlock) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, r.text()) }

// MarshalJSON returns the fields by their names, as usual, but for Err, Abstains and Unresponsive, which are
// their texts, empty for none.
func (n NodeStats) MarshalJSON() ([]byte, error) {
	type fields NodeStats // Without this method.
	return json.Marshal(struct {
		fields

		Err, Abstains, Unresponsive string
	}{fields(n), textOf(n.Err), textOf(n.Abstains), textOf(n.Unresponsive)})
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
