package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/judge"
)

// Both tables add up what was seen of a library.
func TestTables(t *testing.T) {
	one, two := 1, 2
	all := []Figures{
		{Library: "redlock", Faults: "none", Tally: judge.Tally{Locks: 10, NoWakeUp: &one}},
		{Library: "redlock", Faults: "kill", Tally: judge.Tally{Locks: 5, Overlaps: 2, LongestOverlap: 1500, NoWakeUp: &two}},
		{Library: "redsync/redigo", Faults: "kill", Tally: judge.Tally{Locks: 7, OrphansFailed: 1, OrphansReleased: 2, Slow: 3, Longest: 2000, Hung: 1}},
	}
	dir := t.TempDir()
	require.NoError(t, write(io.Discard, flags{out: dir}, all))
	text, err := os.ReadFile(filepath.Join(dir, "peers.md"))
	require.NoError(t, err)
	for _, row := range []string{
		"| redlock | 15 | 2 (1.50 s) | 0 | 0 | 0 | 0 | 0 | 0 | 3 |",
		"| redsync/redigo | 7 | 0 | 0 | 1 | 2 | 0 | 3 (2.00 s) | 1 | polls |",
		"| none | 10 locks, **1** not woken | |",
		"| kill | 5 locks, **2** overlaps (1.50 s), **2** not woken | 7 locks, **3** keys left, **3** slow (2.00 s), **1** over 10 s or never back |",
	} {
		require.Contains(t, string(text), row)
	}
	b, err := os.ReadFile(filepath.Join(dir, "peers.json"))
	require.NoError(t, err)
	var r report
	require.NoError(t, json.Unmarshal(b, &r))
	require.Equal(t, all, r.Figures)
	require.Equal(t, string(text), r.text())
	require.Len(t, r.Sums, 2)
}
