package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTables(t *testing.T) {
	all := []Figures{
		{"redlock", "none", map[string]int{"locks": 10}},
		{"redlock", "kill", map[string]int{"locks": 5}},
		{"redsync/redigo", "kill", map[string]int{"locks": 7, "overlaps": 2, "keys left": 3, "calls over 1 s": 1}},
	}
	dir := t.TempDir()
	require.NoError(t, write(io.Discard, flags{out: dir}, all))
	text, err := os.ReadFile(filepath.Join(dir, "peers.md"))
	require.NoError(t, err)
	for _, row := range []string{
		"| redlock | 15 | 0 | 0 | 0 | 0 |",
		"| redsync/redigo | 7 | 2 | 0 | 3 | 1 |",
		"| none | 10 locks | |",
		"| kill | 5 locks | 7 locks, 2 overlaps, 3 keys left, 1 calls over 1 s |",
	} {
		require.Contains(t, string(text), row)
	}
}
