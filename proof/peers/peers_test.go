package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/peers/locker"
)

// TestMain lets the test binary be a client's process.
func TestMain(m *testing.M) {
	locker.Libraries["broken"] = libraries.Library{Open: func(libraries.Opening) (libraries.Client, error) {
		return libraries.Client{NewWorker: func() libraries.Worker { return careless{} }}, nil
	}}
	if len(os.Args) > 2 && os.Args[1] == "-client" {
		main()
		return
	}
	os.Exit(m.Run())
}

// careless gives everybody a lock, and never says that it is over.
type careless struct{}

func (careless) Try(context.Context, string) error                 { return nil }
func (careless) Lock(context.Context, string, time.Duration) error { return nil }
func (careless) Until() time.Time                                  { return time.Time{} }
func (careless) Lost() <-chan struct{}                             { return nil }
func (careless) Unlock(context.Context) error                      { return nil }

// Without faults each library excludes, loses no update and leaves nothing behind, and the course sees it work.
func TestPeersWithoutFaults(t *testing.T) {
	for _, l := range peers {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if l.name == "node-redlock" {
				node.Require(t)
			}
			events := briefly(t, l)
			v := judge.Judge(events)
			require.Greater(t, v.Locks.All, 5)
			require.Empty(t, v.Violations, "%s", v)
			require.Equal(t, l.quorum, v.Rule("support").Facts > 0, "%s", v)
		})
	}
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		require.NotEqual(t, "0", count(briefly(t, peer{name: "broken"}))[1], "overlaps")
	})
}

// briefly runs a library without faults. redsync's limits are a twentieth of the ttl, and nothing may be late here.
// What it leaves when a context ends stays for the whole ttl, so the run ends before the patience of a call does.
func briefly(t *testing.T, l peer) []history.Event {
	t.Helper()
	patient := groups[0]
	patient.doubled = 1
	events, err := play(flags{time: 2 * time.Second, seed: 1, out: t.TempDir()}, l, patient)
	require.NoError(t, err)
	return events
}
