// Package settings lets packages beside redlock do what users may not do with its types: by function variables that
// package redlock sets, like log/internal for log/slog.
package settings

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
)

// Settings are what a check of the nodes depends on.
type Settings struct {
	Prefix      string // begins the keys of locks
	Space       string // begins the library's own keys and channels; it includes the prefix
	NodeTimeout time.Duration
	Quarantine  time.Duration // the longest ttl; 0: none
	Fencing     bool
	Polling     bool
	SetName     string // of WithSetName
}

// Of returns the settings of a *redlock.Redlock, for redlockcheck.
var Of func(r any) Settings

// Enter makes Close of a *redlock.Redlock wait until exit is called, as for a call of its own. After Close it has no
// effect. Package semaphore needs it to release locks that no user gets before the connections are closed.
var Enter func(r any) (exit func())

// Unused marks a *redlock.Lock that nobody works under yet, so that its Unlock ignores WithMinHold. The mark lasts until
// Use, or until the lock's own Do calls a function. Package semaphore marks a slot that it has won until a caller gets
// it. Only locks that no user has got may be marked: a user need not announce that work begins.
var Unused func(lock any)

// Use ends the mark of Unused: work may begin under the lock, and WithMinHold counts from here.
var Use func(lock any)

// Parts of a Redlock.
type Parts struct {
	WallOffset *atomic.Int64 // added to the wall clock, in ns
	Line       *calls.Line
	Gate       *calls.Gate
}

// Inside returns the parts of a *redlock.Redlock that a test may look at, or change.
var Inside func(r any) Parts

// SetDifferences returns, as a []redlock.SetDifference, the differences in the answers to sets.Question of nodes of
// these names. An empty or malformed answer means that nothing is known of that node.
var SetDifferences func(label string, names, answers []string) (differences any)

// Slot returns a redlock.Option for one of k locks that serve the same waiters: about one of all k makes room for them
// at a time, and not each; see redlock.Lock.Wanted. Package semaphore has one call of Lock go on for many callers, each
// of whom waits for moments. The call is shown as waiting since the longest-waiting of them began; nil inside: since
// its own beginning.
var Slot func(since *calls.Since, k int) (option any)

// Plain returns a redlock.Option for a lock under which nobody works: it clears fencing, turns, and limits of the hold.
var Plain func() (option any)

// IsFree returns nil if a quorum of nodes has no lock on the resource, or one whose label is owner. It waits for no
// slow minority. Otherwise the error matches redlock.ErrTaken, ErrNoQuorum or ErrClosed, or is ctx's.
var IsFree func(ctx context.Context, r any, resource, owner string) error

// Holds reports whether a lock in ctx holds one of the resources, so that a call would return redlock.ErrAlreadyHeld.
var Holds func(ctx context.Context, r any, resources []string) bool

// FnError returns an error that matches whatever err does, except redlock.ErrNotAcquired: it is the error of a Do's
// function.
var FnError func(err error) error
