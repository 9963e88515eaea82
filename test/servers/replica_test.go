package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
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
