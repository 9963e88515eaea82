// Package settings lets redlockcheck read the options of package redlock, which shows them to nobody: a
// function variable, as log/internal has one for log/slog.
package settings

import "time"

// Settings are what a check of the nodes depends on.
type Settings struct {
	Prefix      string // what the keys of locks begin with
	Space       string // what the library's own keys and channels begin with, the prefix included
	NodeTimeout time.Duration
	Quarantine  time.Duration // the longest ttl; 0: none
	Fencing     bool
	Polling     bool
}

// Of returns the settings of a *redlock.Redlock. Package redlock sets it.
var Of func(r any) Settings
