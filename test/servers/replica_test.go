package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/sets"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A node that has become a replica keeps its connections. It is seen to be down, for that
// reason, and is not up and down in turn while it is one; later it comes back by itself.
func TestReplicaThatWasAMasterIsDown(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	var ups atomic.Int32
	r := newPatient(t, nodesOf(c), redlock.WithNodeTimeout(patient), redlock.WithHook(func(_ context.Context, e redlock.Event) {
		if e.Kind == redlock.EventNodeUp && e.Node == c.Nodes[0].Name() {
			ups.Add(1)
		}
	}))
	awaitAll(t, c, r, patience)
	before := ups.Load()
	host, port, err := net.SplitHostPort(c.Nodes[1].DirectAddr())
	require.NoError(t, err)
	admin(t, c.Nodes[0], "REPLICAOF", host, port)
	lockAndUnlock := func() {
		l := tryLock(t, r, []string{"x"}, time.Minute)
		release(t, l)
	}
	await(t, patience, "the replica is given up", func() bool {
		lockAndUnlock()
		return !r.Stats().Nodes[0].Up
	})
	connected := r.Stats().Nodes[0].Connects
	await(t, patience, "it is tried again and again", func() bool {
		lockAndUnlock()
		return r.Stats().Nodes[0].Connects > connected+3
	})
	s := r.Stats().Nodes[0]
	assert.False(t, s.Up)
	require.ErrorContains(t, s.Err, "READONLY")
	assert.Equal(t, before, ups.Load(), "it does not count as up in between")
	admin(t, c.Nodes[0], "REPLICAOF", "NO", "ONE")
	awaitAll(t, c, r, patience)
	assert.Equal(t, before+1, ups.Load())
}

// startSentinel starts a Sentinel of a master, and returns its address.
func startSentinel(t *testing.T, master *testcluster.Node) string {
	t.Helper()
	bin, err := testcluster.ServerBinary()
	require.NoError(t, err)
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	host, masterPort, err := net.SplitHostPort(master.Addr())
	require.NoError(t, err)
	dir := t.TempDir()
	settings := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor m %s %s 1\n", port, dir, host, masterPort)
	file := filepath.Join(dir, "sentinel.conf")
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	cmd := exec.Command(bin, file, "--sentinel")
	require.NoError(t, ln.Close())
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	await(t, patience, "the Sentinel answers", func() bool {
		conn, err := redis.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		_, err = conn.Do("PING")
		return err == nil
	})
	return addr
}

// Its address is what other clients are given, and so the first that many try.
func TestSentinelIsNamed(t *testing.T) {
	t.Parallel()
	addr := startSentinel(t, testcluster.RunServers(t, 1).Nodes[0])
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	for name, tt := range map[string]struct {
		node redlock.Node
		want string
	}{
		"address":  {redlock.NewNode(addr), "it is a Sentinel, which stores no locks (take the addresses of masters)"},
		"pool":     {redlock.Node{Name: "n", Pool: pool}, "it is a Sentinel, which stores no locks (take the addresses of masters)"},
		"database": {redlock.NewNode("redis://" + addr + "?db=2"), "the server has no databases (a Sentinel has none, it stores no locks)"},
	} {
		r := newPatient(t, []redlock.Node{tt.node})
		_, err := r.TryLock(t.Context(), []string{"a"}, time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, name)
		require.ErrorContains(t, err, tt.want, name)
		assert.NotContains(t, err.Error(), "KEYS", name)
		assert.NotContains(t, err.Error(), "with args", name)
	}
	report := checked(t, []redlock.Node{redlock.NewNode(addr)})
	assert.Contains(t, report.String(), "it is a Sentinel, which stores no locks")
	assert.NotContains(t, report.String(), "with args", "nor Lua")
}

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
