package testkit

import (
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/sets"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// NotesKey is the key of a node's notes, without a prefix.
const NotesKey = Reserved + sets.Mark

// NoteSet leaves a note on a node, as a client does that was given these nodes.
func NoteSet(t *testing.T, on *testcluster.Node, who string, nodes ...*testcluster.Node) {
	t.Helper()
	s := &sets.Set{Who: who}
	for _, n := range nodes {
		r := RunNotes(t, n, sets.Read())
		s.Servers = append(s.Servers, sets.Server{Name: n.Name(), Run: r.Run, Started: r.Uptime})
	}
	r := RunNotes(t, on, sets.Read())
	require.True(t, RunNotes(t, on, sets.Write(r.Now, s)).Wrote)
}

// RunNotes runs the script on a node that tells who it is.
func RunNotes(t *testing.T, n *testcluster.Node, args []any, opts ...redis.DialOption) sets.Reading {
	t.Helper()
	conn, err := n.Conn(t.Context(), opts...)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	text, err := redis.String(conn.Do("EVAL", slices.Concat([]any{node.Code(sets.Script), 1, NotesKey}, args)...))
	require.NoError(t, err)
	r, ok := sets.Parse(text)
	require.True(t, ok, text)
	return r
}
