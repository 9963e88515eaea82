// Package settings is what packages beside redlock may do with its types, and users may not: by function
// variables, which package redlock sets, as log/internal has one for log/slog.
package settings

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/clockwatch"
)

// Settings are what a check of the nodes depends on.
type Settings struct {
	Prefix      string // what the keys of locks begin with
	Space       string // what the library's own keys and channels begin with, the prefix included
	NodeTimeout time.Duration
	Quarantine  time.Duration // the longest ttl; 0: none
	Fencing     bool
	Polling     bool
	SetName     string // of WithSetName
}

// Of returns the settings of a *redlock.Redlock, for redlockcheck.
var Of func(r any) Settings

// Enter has Close of a *redlock.Redlock wait until exit is called, as for a call of its own. After Close it has
// no effect. Package semaphore is given locks that no user may get, and has to release them before the
// connections are closed.
var Enter func(r any) (exit func())

// Unused marks a *redlock.Lock that nobody works under yet, so that its Unlock ignores WithMinHold. The mark lasts until
// Use, or until the lock's own Do calls a function. Package semaphore marks a slot that it has won until a caller gets
// it. Only locks that no user has got may be marked: a user need not announce that work begins.
var Unused func(lock any)

// Use ends the mark of Unused: somebody may work under the lock from now on. WithMinHold counts from here.
var Use func(lock any)

// Parts of a Redlock.
type Parts struct {
	WallOffset *atomic.Int64 // added to what the wall clock says, in ns
	Clock      *clockwatch.Clock
	Line       *calls.Line
	Gate       *calls.Gate
}

// Inside returns what a test may look at, or change, in a *redlock.Redlock.
var Inside func(r any) Parts

// SetDifferences returns, as a []redlock.SetDifference, what is wrong by the answers to sets.Question, of nodes of these
// names. One that is empty, or no answer, is a node of which nothing is known.
var SetDifferences func(label string, names, answers []string) (differences any)

// Slot returns a redlock.Option for a lock that is one of k which serve the same waiters: of all k about one is to make
// room for them at a time, and not each; see redlock.Lock.Wanted. A call of Lock is shown among those that wait as long
// as somebody does on whose behalf it waits: since then, or nil inside for its own time. Package semaphore has one call
// go on for many callers, each of whom waits for moments.
var Slot func(since *calls.Since, k int) (option any)

// Plain returns a redlock.Option for a lock in which nobody works: it clears fencing, turns, and limits of the hold.
var Plain func() (option any)

// IsFree returns nil if a quorum of nodes has no lock on the resource, or one whose label is owner. It waits for no slow
// minority. Otherwise the error matches redlock.ErrTaken, ErrNoQuorum or ErrClosed, or is that of ctx.
var IsFree func(ctx context.Context, r any, resource, owner string) error

// Holds reports whether a lock in ctx holds one of the resources, as redlock.ErrAlreadyHeld says of a call.
var Holds func(ctx context.Context, r any, resources []string) bool

// FnError returns an error that matches what err does, but not redlock.ErrNotAcquired: the function of a Do has returned it.
var FnError func(err error) error
