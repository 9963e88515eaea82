// Package history is what a run leaves: one event a line, as JSON, in the order in which the observer got them.
// The judge and the report read nothing else, so a run can be judged again at any time.
//
// All times are nanoseconds of the machine's CLOCK_MONOTONIC since the start of the run, which all processes of one
// machine share, whatever their language: no clock that a fault steps, and none of the library's.
package history

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// Kind says what an event tells.
type Kind string

// The kinds of events, and the fields that they have besides At, Kind and (from clients) Client.
const (
	// Run is the first line: Run.
	Run Kind = "run"

	// Call begins a call of the library: Op, Call, Resources, TTL, Bound, and Lock for a call on a lock; of one that asks
	// for a lock with such options, Permits, MinHold, MaxHold, StopTime, NodeTimeout, Drift (of an extension, too), Turn and Polls.
	// It is written before the call is made, or afterwards where only then it is known what it was: an extension of a
	// lock that is kept alive; a permit, which is a lock on its slot, as "name#3".
	Call Kind = "call"
	// Return ends it: Op, Call, OK, Err, Outcome, and after an acquisition or extension that succeeded Until,
	// Fence, Token and Holder. It is written as soon as the call has returned. A process that was killed has calls
	// without a Return.
	Return Kind = "return"
	// Votes is what the nodes said to an attempt of Call: Votes, and From, when the attempt began. It may come after Return.
	Votes Kind = "votes"
	// Keep says that a lock is kept alive from here on, by KeepAlive or Do: Lock.
	Keep Kind = "keep"
	// Lost is the loss signal of a lock that is kept alive: Lock, Err, and Outcome: OutcomeLost where the lock was lost or
	// had expired, OutcomeCancelled where the hold ended for another reason. At is when the context ended. What ends
	// because of Unlock is not written.
	Lost Kind = "lost"
	// Wait says that a call of Lock was refused and now waits: Call. Once for each call.
	Wait Kind = "wait"
	// Passed says that the Unlock of a lock was none of the nodes' keys: a caller of the same process has them next, with a
	// lock of its own and the same Holder. Lock. It may come after the Return.
	Passed Kind = "passed"

	// Sets says that a client was told of another one with other nodes: Err. With OK, their quorums always meet.
	Sets Kind = "sets"

	// Enter and Leave are the ends of a critical section: Lock, Resources. Enter is written before the first thing
	// that the section does, Leave after the last one.
	Enter Kind = "enter"
	Leave Kind = "leave"

	// Read and Write are operations of a section on the observer's register for a resource, which is guarded by
	// fences: Lock, Resources (one), Fence, Value, OK; At is when it was asked for, End when it was answered.
	// OK is false where the fence was behind one that the register has seen.
	Read  Kind = "read"
	Write Kind = "write"

	// FaultBegin and FaultEnd are the conductor's: Fault, Node or Client, Detail; a fault of an instant has no end.
	// FaultBegin is written before the fault is made, FaultEnd after it was undone. Only of a Stall a client tells
	// itself, afterwards.
	FaultBegin Kind = "fault"
	FaultEnd   Kind = "fault end"

	// Sample is how much a process uses, one of the clients or, without Client, all that the conductor sees: Value, the number
	// of the sample, and Figures.
	Sample Kind = "sample"

	// Up and Down are the beginning and the end of a client's process, Up with Polls if it can hear of no release, Down with
	// what ended it in Err.
	Up   Kind = "up"
	Down Kind = "down"

	// Step is what package trace saw a node do with a key: Node, Op, Resources (one: the key), and of whom: Holder, Owner. It
	// was done at At at the latest, and at From at the earliest. Of an Op that gives a key a life, that is TTL, 0 if it has
	// no end; Fence is the counter that the node then had of it; Detail says what is odd.
	Step Kind = "step"
	// Keys is what a node had left when the run was over and everything had expired or been released: Node, Keys, and
	// in Detail the tokens in them.
	Keys Kind = "keys"
	// Register is what the observer's register held in the end: Resources (one), Value, Fence.
	Register Kind = "register"
	// End is the last line. A history without it was cut short.
	End Kind = "end"
)

// What a call was, and how it ended.
const (
	OpLock    = "lock"
	OpTryLock = "trylock"
	OpExtend  = "extend"
	OpUnlock  = "unlock"
	OpRelease = "release" // By token, by a process that need not be the holder.

	// Outcomes of calls that failed, for the rules that depend on it. Others have none.
	OutcomeTaken     = "taken"     // Somebody else holds it.
	OutcomeNoQuorum  = "no quorum" // Too few nodes said yes or no; what was asked for may have been done.
	OutcomeLost      = "lost"      // A quorum says that the lock is not there any more.
	OutcomeCancelled = "cancelled" // The caller's context ended, or the client was closed.
)

// What a node did, as far as its MONITOR and its answers tell.
const (
	StepGrant   = "grant"   // The key became the holder's: a lock, or a repair.
	StepAsked   = "asked"   // The holder asked for the key, or to extend it; what came of it is not known.
	StepExtend  = "extend"  // The holder had the key, and has it for longer.
	StepShorten = "shorten" // The holder has it for less long, as with min hold.
	StepRelease = "release" // The holder's key was deleted by a request that names its token.
	StepExpire  = "expire"  // The holder's key has expired.
	StepFound   = "found"   // The key was read: it is the holder's or, without one, nobody's.
	StepCount   = "count"   // The counter of fences changed while the key was the holder's, or nobody's.
	StepWiped   = "wiped"   // All keys were deleted: FLUSHALL.
	StepSet     = "set"     // The node's clock was set back.
	StepLate    = "late"    // The node took long to answer a ping.
	StepGap     = "gap"     // From here on nothing is seen of the node, and its keys are not known until they are read.
	StepWatch   = "watch"   // The node is seen again. Detail: the run of the server.
	StepOdd     = "odd"     // No rule explains what was done, or what was read.
)

// ByDo is the Detail of an Unlock that Do makes. Its nil says that the lock was held, and not that its keys are gone.
const ByDo = "do"

// Freeze is the fault of a process, a client's or a node's, that is stopped for a while. Rules about time except it.
const Freeze = "freeze"

// Stall is a time in which a client's process did not run, as it has found itself: nobody stopped it, or it was frozen.
const Stall = "stall"

// Empty is the fault of a node that loses its data, Stale that of one that comes back with what it had a while ago.
const (
	Empty = "empty"
	Stale = "stale"
)

// An Event is one line. Fields that a kind does not have are left out.
type Event struct {
	At     int64  `json:"at"`
	Kind   Kind   `json:"kind"`
	Client string `json:"client,omitempty"` // The process: "c1", after a restart "c1.2".

	Op        string   `json:"op,omitempty"`
	Call      int      `json:"call,omitempty"`  // Counts the calls of a client, from 1 on.
	Lock      int      `json:"lock,omitempty"`  // The Call that acquired the lock which this is about.
	Owner     string   `json:"owner,omitempty"` // The client that acquired Lock, where it is another one.
	Resources []string `json:"resources,omitempty"`
	TTL       int64    `json:"ttl,omitempty"`
	Bound     int64    `json:"bound,omitempty"` // When the call must have returned, 0 if there is no bound.
	Polls     bool     `json:"polls,omitempty"` // The call stands in no line.

	OK      bool   `json:"ok,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Err     string `json:"err,omitempty"`
	// Until is when the lock ends, as its holder saw it then. Of a lock that is kept alive, whose extensions are no
	// calls, any event of its holder tells it: Lost and the Call of an Unlock do, or rules have to leave the lock out.
	// Where locks have fences, every acquisition that succeeded has it.
	Until int64  `json:"until,omitempty"`
	Fence int64  `json:"fence,omitempty"`
	Token string `json:"token,omitempty"`
	// Holder is the digest by which others are told of the lock.
	Holder string `json:"holder,omitempty"`
	Votes  []Vote `json:"votes,omitempty"`
	From   int64  `json:"from,omitempty"`
	Set    []int  `json:"set,omitempty"` // Of Up: the numbers of the client's nodes, if it does not have all.

	// What a call asked for besides: a permit of so many, and the options of those names. Where they are left out, NodeTimeout
	// and Drift are what the run's are.
	Permits     int     `json:"permits,omitempty"`
	MinHold     int64   `json:"minHold,omitempty"`
	MaxHold     int64   `json:"maxHold,omitempty"`
	StopTime    int64   `json:"stopTime,omitempty"`
	NodeTimeout int64   `json:"nodeTimeout,omitempty"`
	Drift       float64 `json:"drift,omitempty"`
	Turn        int64   `json:"turn,omitempty"`

	Value   int64              `json:"value,omitempty"`
	End     int64              `json:"end,omitempty"`
	Figures map[string]float64 `json:"figures,omitempty"`

	Fault  string   `json:"fault,omitempty"`
	Node   *int     `json:"node,omitempty"` // From 0 on.
	Detail string   `json:"detail,omitempty"`
	Keys   []string `json:"keys,omitempty"`

	Run *Header `json:"run,omitempty"`
}

// A Vote is what one node said, and when.
type Vote struct {
	Node int    `json:"node"`
	At   int64  `json:"at,omitempty"`
	Says string `json:"says"` // "yes", "taken", or the error.
}

// A Header says what was run.
type Header struct {
	Seed     uint64            `json:"seed"`
	Course   string            `json:"course"`  // The name of the schedule's kind, "all" or one fault.
	Library  string            `json:"library"` // "redlock", "redsync/redigo", ...
	Commit   string            `json:"commit"`
	Versions map[string]string `json:"versions"` // Of Go, the server, the library, the system.
	Started  string            `json:"started"`  // RFC 3339, by the wall clock.
	Command  string            `json:"command"`  // Replays the schedule.
	Nodes    int               `json:"nodes"`
	Clients  int               `json:"clients"`
	Settings map[string]string `json:"settings"` // ttl, node timeout, ...
	// Fences is whether there are locks with fences, Fenced the resources that have them.
	Fences bool     `json:"fences"`
	Fenced []string `json:"fenced,omitempty"`
	// Bare are resources that are locked without quarantine, so that a node that loses its data may break any promise.
	Bare []string `json:"bare,omitempty"`
	// MaxTTL and LastMaxTTL are for how long nodes that have restarted abstain, at least and at most; 0: they do not.
	MaxTTL     int64 `json:"maxTTL,omitempty"`
	LastMaxTTL int64 `json:"lastMaxTTL,omitempty"`
	// SignalSlack is by how much a loss signal, the Return of an acquisition or the beginning of a section may come after
	// Until, or a call after its bound: of the time in which the process ran, so it can be small where clients tell Stalls.
	// OverlapSlack is by how much two locks' times may overlap: what clocks that are allowed to drift account for.
	SignalSlack  int64 `json:"signalSlack"`
	OverlapSlack int64 `json:"overlapSlack"`
	// Drift is by how much faster than a client's a node's clock may run, as a part of it: 0.01. Until leaves that much of
	// a ttl, and DriftLeast besides.
	Drift      float64 `json:"drift,omitempty"`
	DriftLeast int64   `json:"driftLeast,omitempty"`
	// Guests are clients of other libraries on the same locks: "g1". Only the rule overlap looks at theirs, as they may
	// overlap with this library's.
	Guests []string `json:"guests,omitempty"`
	// Without names rules of the judge that this library does not promise, or that this course excepts.
	Without []string `json:"without,omitempty"`
}

// ReadFile reads the history in a file, which may be packed.
func ReadFile(name string) ([]Event, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var in io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(file); err != nil {
			return nil, err
		}
	}
	return Parse(in)
}

// Parse reads the events of a history.
func Parse(r io.Reader) (events []Event, err error) {
	err = Each(r, func(e Event) { events = append(events, e) })
	if err != nil {
		return nil, err
	}
	return events, nil
}

// Each calls f with each event. Half a line at the end is left out: a run was cut short there, and has no End, or a process
// was killed.
func Each(r io.Reader, f func(Event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), 1<<22)
	var bad error
	for n := 1; lines.Scan(); n++ {
		if bad != nil {
			return bad
		}
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			bad = fmt.Errorf("history: line %d: %w", n, err)
			continue
		}
		f(e)
	}
	return lines.Err()
}
