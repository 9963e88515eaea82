package main

import (
	"context"
	"os"
	"path/filepath"
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
			f, events := briefly(t, l)
			require.Greater(t, f.Counts["locks"], 5)
			v := judge.Judge(events)
			require.Empty(t, v.Violations, "%s", v)
			require.Equal(t, l.quorum, v.Rule("support").Facts > 0, "%s", v)
		})
	}
	t.Run("broken", func(t *testing.T) {
		t.Parallel()
		f, _ := briefly(t, peer{name: "broken", command: inGo("broken")})
		require.Positive(t, f.Counts["overlaps"])
	})
}

func briefly(t *testing.T, l peer) (Figures, []history.Event) {
	t.Helper()
	dir := t.TempDir()
	// redsync's limits are a twentieth of the ttl, and nothing may be late here. What it leaves when a context ends stays
	// for the whole ttl.
	patient := groups[0]
	patient.doubled = 1
	f, err := play(flags{time: 3 * time.Second, seed: 1, out: dir}, l, patient)
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	file, err := os.Open(files[0])
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	events, err := history.Parse(file)
	require.NoError(t, err)
	return f, events
}
