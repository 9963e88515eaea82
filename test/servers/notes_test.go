package servers

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/sets"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

// note writes one, by the node's clock, and returns what others are there.
func note(t *testing.T, n *testcluster.Node, who string) sets.Reading {
	t.Helper()
	now := testkit.RunNotes(t, n, sets.Read()).Now
	return testkit.RunNotes(t, n, sets.Write(now, &sets.Set{Who: who, Servers: []sets.Server{{Name: who, Run: who}}}))
}

func TestNotesOnAServer(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	require.True(t, note(t, n, "a").Wrote)
	require.False(t, note(t, n, "a").Wrote, "it is fresh")
	r := note(t, n, "b")
	require.True(t, r.Wrote)
	require.Len(t, r.Notes, 1)
	assert.Equal(t, "a", r.Notes[0].Who)
	assert.Less(t, r.Notes[0].Age, 20*time.Second)
	ms, err := redis.Int64(adminConn(t, n).Do("PTTL", testkit.NotesKey))
	require.NoError(t, err)
	assert.InDelta(t, sets.Life.Milliseconds(), ms, 20_000)

	// Where nothing can be written, others' can be read all the same, and it is no error.
	admin(t, n, "CONFIG", "SET", "maxmemory", "1")
	r = note(t, n, "c")
	assert.False(t, r.Wrote)
	assert.Len(t, r.Notes, 2)
	admin(t, n, "CONFIG", "SET", "maxmemory", "0")
	admin(t, n, "CONFIG", "SET", "min-replicas-to-write", "3")
	r = note(t, n, "c")
	assert.False(t, r.Wrote)
	assert.Len(t, r.Notes, 2)
	admin(t, n, "CONFIG", "SET", "min-replicas-to-write", "0")

	// What another program has put there is none.
	require.NoError(t, n.Set(testkit.NotesKey, "x\ny z\n1 2 3 {}\n\n", time.Minute))
	assert.Empty(t, testkit.RunNotes(t, n, sets.Read()).Notes)
	admin(t, n, "DEL", testkit.NotesKey)
	admin(t, n, "LPUSH", testkit.NotesKey, "x")
	assert.Empty(t, testkit.RunNotes(t, n, sets.Read()).Notes)
	assert.True(t, note(t, n, "c").Wrote)
}

// A replica has its master's notes, which say nothing of the servers that its own clients reach; nor does a file that
// was restored.
func TestNotesOfAMasterAreNotItsReplicas(t *testing.T) {
	c := testcluster.RunServers(t, 2)
	master, replica := c.Nodes[0], c.Nodes[1]
	host, port, err := net.SplitHostPort(master.DirectAddr())
	require.NoError(t, err)
	admin(t, replica, "REPLICAOF", host, port)
	require.True(t, note(t, master, "a").Wrote)
	await(t, 20*time.Second, "the note comes to the replica", func() bool {
		text, found, readErr := replica.Get(testkit.NotesKey)
		return readErr == nil && found && text != ""
	})
	r := note(t, replica, "b")
	assert.Empty(t, r.Notes)
	assert.False(t, r.Wrote, "it is read-only")
	admin(t, replica, "REPLICAOF", "NO", "ONE")
	r = note(t, replica, "b")
	assert.Empty(t, r.Notes)
	assert.True(t, r.Wrote)
	text, _, err := replica.Get(testkit.NotesKey)
	require.NoError(t, err)
	assert.NotContains(t, text, "\n", "the other's line is gone")
}

// Whoever lacks a right learns nothing, and hears of no error.
func TestNotesWithoutRights(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	n := c.Nodes[0]
	require.True(t, note(t, n, "a").Wrote)
	for name, test := range map[string]struct {
		rights string
		none   bool
		notes  int
	}{
		"those of the documents": {"+eval +get +set +time +info", false, 1},
		"no INFO":                {"+eval +get +set +time", true, 0},
		"no TIME":                {"+eval +get +set +info", true, 0},
		"no SET":                 {"+eval +get +time +info", false, 1},
		"no GET":                 {"+eval +set +time +info", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			admin(t, n, "ACL", redis.Args{"SETUSER", "some", "reset", "on", ">x", "~*", "-@all"}.AddFlat(strings.Fields(test.rights))...)
			conn, err := n.Conn(t.Context(), redis.DialUsername("some"), redis.DialPassword("x"))
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			text, err := redis.String(conn.Do("EVAL", append([]any{node.Code(sets.Script), 1, testkit.NotesKey}, sets.Read()...)...))
			require.NoError(t, err)
			r, ok := sets.Parse(text)
			assert.Equal(t, test.none, !ok)
			assert.Len(t, r.Notes, test.notes)
		})
	}
}
