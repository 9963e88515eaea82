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
	await(t, patience, "the replica is given up, and tried again and again", func() bool {
		release(t, tryLock(t, r, []string{"x"}, time.Minute))
		return !r.Stats().Nodes[0].Up && r.Stats().Nodes[0].Connects > 4
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	host, masterPort, _ := net.SplitHostPort(master.Addr())
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	settings := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor m %s %s 1\n", port, dir, host, masterPort)
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	require.NoError(t, ln.Close())
	p, err := testcluster.StartProcess(exec.Command(bin, file, "--sentinel"), filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	await(t, patience, "the Sentinel answers", func() bool {
		conn, err := redis.Dial("tcp", addr)
		return err == nil && conn.Close() == nil
	})
	return addr
}

// Its address is what other clients are given, and so the first that many try.
func TestSentinelIsNamed(t *testing.T) {
	t.Parallel()
	addr := startSentinel(t, testcluster.RunServers(t, 1).Nodes[0])
	for at, says := range map[string]string{
		addr:                        "it is a Sentinel, which stores no locks (take the addresses of masters)",
		"redis://" + addr + "?db=2": "the server has no databases (a Sentinel has none, it stores no locks)",
	} {
		err := refusal(t, redlock.ErrNoQuorum, newPatient(t, []redlock.Node{redlock.NewNode(at)}), []string{"a"}, time.Minute)
		require.ErrorContains(t, err, says)
		assert.NotContains(t, err.Error(), "with args")
	}
	assert.Contains(t, checked(t, []redlock.Node{redlock.NewNode(addr)}).String(), "it is a Sentinel, which stores no locks")
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

	// Where nothing can be written, others' can be read all the same, and it is no error.
	for setting, value := range map[string]string{"maxmemory": "1", "min-replicas-to-write": "3"} {
		admin(t, n, "CONFIG", "SET", setting, value)
		r = note(t, n, "c")
		assert.False(t, r.Wrote)
		assert.Len(t, r.Notes, 2)
		admin(t, n, "CONFIG", "SET", setting, "0")
	}

	// Whoever lacks a right learns nothing, and hears of no error.
	for rights, notes := range map[string]int{"+eval +get +set +time +info": 2, "+eval +set +time +info": 0} {
		setUser(t, n, "some", append(strings.Fields(rights), "~*")...)
		assert.Len(t, testkit.RunNotes(t, n, sets.Read(), redis.DialUsername("some"), redis.DialPassword(secret)).Notes, notes, rights)
	}

	// What another program has put there is none.
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
