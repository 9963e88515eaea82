package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// What is wrong is said before anything is connected to, and without what may be a password.
func TestWrongArguments(t *testing.T) {
	t.Setenv("NODES", "")
	for args, says := range map[string]string{
		"":                                     "name the nodes",
		"a:1 redis://:secret#h:6379":           "node 2 is none",
		"redis://user:12345/secret@h":          "node 1 is none",
		"rediss://user:secret":                 "node 1 is none",
		"ftp://secret":                         "node 1 is none",
		"redis://a:1/x":                        "node 1 is none",
		"redis://u:secret@a:1 redis://a:1/2":   "\"a:1\" is named twice",
		"-time -1s a:1":                        "-time -1s is not positive",
		"redis://u:secret@a:1 redis://a:2?x=1": "node 2 is none",
	} {
		err := run(t.Context(), strings.Fields(args), &bytes.Buffer{})
		require.ErrorContains(t, err, says, args)
		require.NotContains(t, err.Error(), "secret", args)
	}
}

// A writer that a test may read while it is written.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func TestExplain(t *testing.T) {
	if _, err := testcluster.ServerBinary(); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	c, err := testcluster.StartServers(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	addr := c.Nodes[0].DirectAddr()
	t.Setenv("NODES", addr)
	var out output
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, nil, &out) }()
	says := func(text string) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(out.String(), text) }, 20*time.Second, 5*time.Millisecond, text)
	}
	says("watch")
	conn, err := c.Nodes[0].Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Do("SET", "a", "this is a secret token", "NX", "PX", 60_000)
	require.NoError(t, err)
	says("found")
	_, err = conn.Do("SET", "other", "another secret")
	require.NoError(t, err)
	_, err = conn.Do("DEL", "a", "other")
	require.NoError(t, err)
	says("WRONG")
	stop()
	require.ErrorContains(t, <-ended, "something was wrong")
	require.NotContains(t, out.String(), "secret")
	require.ErrorContains(t, run(t.Context(), []string{"-time", "1s", addr, "redis://localhost:" + addr[strings.LastIndex(addr, ":")+1:]}, &out), "are one server")
}
