package servers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

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
	await(t, 30*time.Second, "the Sentinel answers", func() bool {
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
	for name, tt := range map[string]struct {
		node redlock.Node
		want string
	}{
		"address":  {redlock.NewNode(addr), "it is a Sentinel, which stores no locks (take the addresses of masters)"},
		"pool":     {redlock.Node{Name: "n", Pool: poolTo(addr)}, "it is a Sentinel, which stores no locks (take the addresses of masters)"},
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

func poolTo(addr string) redlock.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
}
