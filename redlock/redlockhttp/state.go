package redlockhttp

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

// maxListed bounds how many locks and waits are listed; the rest are only counted. A page that renews itself each
// second must stay light when a process holds many thousands.
const maxListed = 500

// maxNames is how many resources of one lock are listed, and maxName how many bytes of a name: there may
// be thousands, of any length.
const maxNames, maxName = 20, 256

// A State is what the page shows, as JSON. Durations are in milliseconds, times as RFC 3339. Of the
// resources of a lock, a wait or an event, Resources has at most 20, each with at most 256 bytes, and
// Names has how many there are. More fields may be added.
type State struct {
	Time    time.Time `json:"time"`  // of this process: what Until and Since are to be compared with
	Need    int       `json:"need"`  // the quorum
	Up      int       `json:"up"`    // nodes that are connected, grant locks, and vote in time
	Wrong   []Wrong   `json:"wrong"` // what somebody should look at, the worst first; empty: nothing
	Nodes   []Node    `json:"nodes"`
	Held    []Lock    `json:"held"`    // at most 500, those that end soonest first; Counts has how many there are
	Waiting []Wait    `json:"waiting"` // at most 500, the longest wait first
	Counts  Counts    `json:"counts"`

	HeldMatching    int `json:"held_matching"`    // locks that match the query's filter, all without one
	WaitingMatching int `json:"waiting_matching"` // calls that do

	Events []Event `json:"events"` // out of the ordinary, the latest first
}

// A Node is a node in a State.
type Node struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // up, down, closed, connecting (nothing bad is known yet), or connected without votes: unresponsive, quarantined or mismatched
	RTT     float64 `json:"rtt_ms"`
	Error   string  `json:"error,omitempty"`
	Listens bool    `json:"listens"`
	Backlog int     `json:"backlog"`

	PendingReleases int   `json:"pending_releases"`
	Connects        int64 `json:"connects"`
	Unknown         int64 `json:"unknown"`
	Cleaned         int64 `json:"cleaned"`

	Vanished   int64     `json:"vanished"`             // held locks whose keys it has lost; see the field of redlock.NodeStats
	VanishedAt time.Time `json:"vanished_at,omitzero"` // when that was last noticed

	Votes Votes `json:"votes"`
}

// Votes are the figures of the field Votes of [redlock.NodeStats].
type Votes struct {
	Yes         int64 `json:"yes"`
	Taken       int64 `json:"taken"`
	Lost        int64 `json:"lost"`
	Timeout     int64 `json:"timeout"`
	Overloaded  int64 `json:"overloaded"`
	Quarantined int64 `json:"quarantined"`
	Failed      int64 `json:"failed"`
}

// A Lock is a lock that this process holds, in a State.
type Lock struct {
	Resources []string  `json:"resources"`
	Names     int       `json:"names"`
	Since     time.Time `json:"since"`
	Extended  time.Time `json:"extended"` // when its validity was last begun
	Until     time.Time `json:"until"`
	Left      float64   `json:"left_ms"`
	Fence     int64     `json:"fence,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	Holder    string    `json:"holder"` // the digest of the token, as events and refusals show it
	Kept      bool      `json:"kept"`
	Semaphore string    `json:"semaphore,omitempty"` // of which it is a permit; see [WithSemaphores]
	Slot      *int      `json:"slot,omitempty"`
}

// A Wait is a call that waits, in a State.
type Wait struct {
	Resources   []string  `json:"resources"`
	Names       int       `json:"names"`
	Owner       string    `json:"owner,omitempty"`
	Since       time.Time `json:"since"`
	Waited      float64   `json:"waited_ms"`
	Position    int       `json:"position,omitempty"` // 0: it polls
	Attempts    int       `json:"attempts"`
	Reason      string    `json:"reason,omitempty"` // taken, no quorum
	Holder      string    `json:"holder,omitempty"`
	HolderOwner string    `json:"holder_owner,omitempty"`
	HolderSince time.Time `json:"holder_since,omitzero"` // since when, at least, the holder has the lock
	Semaphore   string    `json:"semaphore,omitempty"`   // for a permit of which it waits, and on which slot
	Slot        *int      `json:"slot,omitempty"`
}

// Counts are the figures of [redlock.Stats].
type Counts struct {
	Held    int `json:"held"`
	Kept    int `json:"kept"`
	Waiting int `json:"waiting"`
	Asking  int `json:"asking"`
	Queued  int `json:"queued"`
	Window  int `json:"window"`

	SetsDiffer int     `json:"sets_differ"`    // other clients' sets of nodes; Wrong says which
	OldestWait float64 `json:"oldest_wait_ms"` // for how long the longest of the calls has waited; 0 without any

	Acquired      int64 `json:"acquired"`
	Passed        int64 `json:"passed"`
	Extended      int64 `json:"extended"`
	Repaired      int64 `json:"repaired"`
	Unlocked      int64 `json:"unlocked"`
	Taken         int64 `json:"taken"`
	NoQuorum      int64 `json:"no_quorum"`
	Overloaded    int64 `json:"overloaded"`
	Lost          int64 `json:"lost"`
	Splits        int64 `json:"splits"`
	Raised        int64 `json:"raised"`
	Woken         int64 `json:"woken"`
	Standstills   int64 `json:"standstills"`
	EventsDropped int64 `json:"events_dropped"`

	HoldsReleased int64 `json:"holds_released"`
	HoldsExpired  int64 `json:"holds_expired"`
	HoldsLost     int64 `json:"holds_lost"`
	HoldsStopTime int64 `json:"holds_stop_time"`
	HoldsMaxHold  int64 `json:"holds_max_hold"`
	HoldsClosed   int64 `json:"holds_closed"`
}

// An Event is one of [redlock.Redlock.RecentEvents].
type Event struct {
	Time      time.Time `json:"time"`
	Kind      string    `json:"kind"`
	Level     string    `json:"level"` // info, or warning where somebody should look
	Node      string    `json:"node,omitempty"`
	Resources []string  `json:"resources,omitempty"`
	Names     int       `json:"names,omitempty"`
	Owner     string    `json:"owner,omitempty"`
	Held      float64   `json:"held_ms,omitempty"`
	Error     string    `json:"error,omitempty"`
	Votes     []string  `json:"votes,omitempty"`
	Note      string    `json:"note,omitempty"`
}

// A query says what to list.
type query struct {
	filter string // locks and calls of which a resource or an owner has this in it, or whose holder it is
	sort   string // of locks: "oldest", "name", or those that end soonest
}

func (q query) matches(resources []string, holder string, owners ...string) bool {
	has := func(s string) bool { return strings.Contains(s, q.filter) }
	return slices.ContainsFunc(resources, has) || slices.ContainsFunc(owners, has) || holder == q.filter
}

// look returns the state of the Redlock.
func (h handler) look(q query) State {
	stats, now := h.r.Stats(), time.Now()
	s := State{
		Time: now.Round(0), Need: len(stats.Nodes)/2 + 1, Counts: counts(&stats),
		Nodes: make([]Node, 0, len(stats.Nodes)), Held: []Lock{}, Waiting: []Wait{}, Events: []Event{},
	}
	for _, n := range stats.Nodes {
		s.Nodes = append(s.Nodes, nodeOf(n))
		if n.Up && n.Abstains == nil && n.Unresponsive == nil {
			s.Up++
		}
	}
	events := h.r.RecentEvents()
	for i := range events {
		s.Events = append(s.Events, eventOf(&events[len(events)-1-i]))
	}
	held, waiting := h.r.HeldLocks(), h.r.WaitingCalls()
	s.Wrong = wrongOf(&s, now, stats.Sets, held, waiting, func(c redlock.WaitingCall) string { return h.slotOf(c.Resources).semaphore })
	locks := slices.DeleteFunc(held, func(l redlock.HeldLock) bool { return !q.matches(l.Resources, l.Holder, l.Owner) })
	switch q.sort {
	case "oldest": // They are in that order.
	case "name":
		slices.SortStableFunc(locks, func(a, b redlock.HeldLock) int { return slices.Compare(a.Resources, b.Resources) })
	default:
		slices.SortStableFunc(locks, func(a, b redlock.HeldLock) int { return a.Until.Compare(b.Until) })
	}
	s.HeldMatching = len(locks)
	for _, l := range locks[:min(len(locks), maxListed)] {
		slot := h.slotOf(l.Resources)
		s.Held = append(s.Held, Lock{
			Resources: listed(l.Resources), Names: len(l.Resources), Since: l.Since, Extended: l.Extended, Until: l.Until, Left: millis(l.Until.Sub(now)), Fence: l.Fence,
			Owner: l.Owner, Holder: l.Holder, Kept: l.Kept, Semaphore: slot.semaphore, Slot: slot.number,
		})
	}
	calls := slices.DeleteFunc(waiting, func(c redlock.WaitingCall) bool { return !q.matches(c.Resources, c.Holder, c.Owner, c.HolderOwner) })
	s.WaitingMatching = len(calls)
	for _, c := range calls[:min(len(calls), maxListed)] {
		slot := h.slotOf(c.Resources)
		s.Waiting = append(s.Waiting, Wait{
			Resources: listed(c.Resources), Names: len(c.Resources), Owner: c.Owner, Since: c.Since, Waited: millis(now.Sub(c.Since)), Position: c.Position,
			Attempts: c.Attempts, Reason: reason(c.Err), Holder: c.Holder, HolderOwner: c.HolderOwner, HolderSince: c.HolderSince,
			Semaphore: slot.semaphore, Slot: slot.number,
		})
	}
	return s
}

// listed returns the names of resources that are shown.
func listed(resources []string) []string {
	some := slices.Clone(resources[:min(len(resources), maxNames)])
	for i, name := range some {
		if len(name) > maxName {
			some[i] = strings.ToValidUTF8(name[:maxName-len("…")], "") + "…"
		}
	}
	return some
}

func nodeOf(n redlock.NodeStats) Node {
	v := Node{
		Name: n.Node, State: "connecting", RTT: millis(n.RTT), Listens: n.Listens, Backlog: n.Backlog,
		Votes: Votes(n.Votes), PendingReleases: n.PendingReleases, Connects: n.Connects, Unknown: n.Unknown, Cleaned: n.Cleaned,
		Vanished: n.Vanished, VanishedAt: n.VanishedAt.Round(0),
	}
	why := n.Err
	switch {
	case n.Up && n.Unresponsive != nil:
		v.State, why = "unresponsive", n.Unresponsive
	case n.Up && errors.Is(n.Abstains, redlock.ErrConfigMismatch):
		v.State, why = "mismatched", n.Abstains
	case n.Up && n.Abstains != nil:
		v.State, why = "quarantined", n.Abstains
	case n.Up:
		v.State = "up"
	case errors.Is(n.Err, redlock.ErrClosed):
		v.State, why = "closed", nil
	case n.Err != nil:
		v.State = "down"
	}
	v.Error = text(why)
	return v
}

func counts(s *redlock.Stats) Counts {
	return Counts{
		Held: s.Held, Kept: s.Kept, Waiting: s.Waiting, Asking: s.Asking, Queued: s.Queued, Window: s.Window, SetsDiffer: len(s.Sets), OldestWait: millis(s.OldestWait),
		Acquired: s.Acquired, Passed: s.Passed, Extended: s.Extended, Repaired: s.Repaired, Unlocked: s.Unlocked, Taken: s.Taken,
		NoQuorum: s.NoQuorum, Overloaded: s.Overloaded, Lost: s.Lost, Splits: s.Splits, Raised: s.Raised,
		Woken: s.Woken, Standstills: s.Standstills, EventsDropped: s.EventsDropped,
		HoldsReleased: s.HoldsEnded.Released, HoldsExpired: s.HoldsEnded.Expired, HoldsLost: s.HoldsEnded.Lost,
		HoldsStopTime: s.HoldsEnded.StopTime, HoldsMaxHold: s.HoldsEnded.MaxHold, HoldsClosed: s.HoldsEnded.Closed,
	}
}

func reason(err error) string {
	switch {
	case errors.Is(err, redlock.ErrTaken):
		return "taken"
	case errors.Is(err, redlock.ErrNoQuorum):
		return "no quorum"
	default:
		return ""
	}
}

func millis(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
