package servers

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockcheck"
)

// documentedACL is the line of docs/operations.md that makes a user for locks.
func documentedACL(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	var found []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "user ") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	require.Len(t, found, 1)
	return found[0]
}

// A real server loads what the documents show, however it is given to it, and the user that it
// makes may do all that the library does. Check has an answer for it: it does not end in "unknown".
func TestACLOfTheDocumentsIsLoaded(t *testing.T) {
	t.Parallel()
	line := documentedACL(t)
	file := filepath.Join(t.TempDir(), "acl")
	require.NoError(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
	for name, option := range map[string]testcluster.ServerOption{
		"users.acl":   testcluster.WithArgs("--aclfile", file),
		"redis.conf":  testcluster.WithArgs("--include", file),
		"ACL SETUSER": testcluster.WithArgs(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testcluster.RunServers(t, 3, testcluster.WithArgs("--appendonly", "yes", "--appendfsync", "always"), option)
			if name == "ACL SETUSER" {
				for _, n := range c.Nodes {
					admin(t, n, "ACL", redis.Args{"SETUSER"}.AddFlat(strings.Fields(line)[1:])...)
				}
			}
			nodes := make([]redlock.Node, len(c.Nodes))
			for i, n := range c.Nodes {
				nodes[i] = redlock.NewNode("redis://locker:secret@" + n.DirectAddr())
			}
			requireLocks(t, nodes)
			prefix := redlock.WithPrefix("locks:")
			report := checked(t, nodes, prefix, redlock.WithFencing(), redlock.WithQuarantine(time.Minute))
			assert.Equal(t, redlockcheck.OK, report.Verdict())
			for _, n := range c.Nodes { // Without quarantine it says so, as it finds that others have it.
				require.NoError(t, n.Flush())
			}
			report = checked(t, nodes, prefix)
			assert.Equal(t, redlockcheck.Warning, report.Verdict())
			for _, f := range report.Findings {
				assert.Equal(t, f.Check == "persistence", f.Verdict != redlockcheck.OK, "%+v", f)
			}
			report = checked(t, nodes)
			assert.Equal(t, redlockcheck.Unfit, report.Verdict())
			i := slices.IndexFunc(report.Findings, func(f redlockcheck.Finding) bool { return f.Check == "acl" })
			require.GreaterOrEqual(t, i, 0)
			f := report.Findings[i]
			assert.Contains(t, f.Text, "the user may not use keys without a prefix")
			assert.Contains(t, f.Advice, "Give the prefix")
			assert.NotContains(t, f.Advice, "~*")
		})
	}
}

// requireLocks uses locks with fencing and quarantine, and has a waiter be told of a release.
func requireLocks(t *testing.T, nodes []redlock.Node) {
	t.Helper()
	var polls atomic.Int64
	opts := []redlock.Option{
		redlock.WithPrefix("locks:"), redlock.WithFencing(), redlock.WithQuarantine(time.Minute),
		redlock.WithHook(func(_ context.Context, e redlock.Event) {
			if e.Kind == redlock.EventPolling {
				polls.Add(1)
			}
		}),
	}
	a, b := newPatient(t, nodes, opts...), newPatient(t, nodes, opts...)
	require.NoError(t, a.Admit(t.Context(), nodes[0].Name, nodes[1].Name, nodes[2].Name))
	first, err := a.Lock(t.Context(), []string{"x"}, time.Minute)
	require.NoError(t, err)
	got := make(chan *redlock.Lock, 1)
	go func() {
		// It would sleep for longer than the test, if it were not told.
		second, err := b.Lock(t.Context(), []string{"x"}, time.Minute, redlock.WithRetryDelay(time.Hour), redlock.WithRetryJitter(0))
		assert.NoError(t, err)
		got <- second
	}()
	await(t, 30*time.Second, "it waits", func() bool { return b.Stats().Waiting == 1 && b.Stats().Nodes[0].Listens })
	require.NoError(t, first.Extend(t.Context(), time.Minute))
	require.NoError(t, first.Unlock(t.Context()))
	second := <-got
	require.NotNil(t, second)
	require.NoError(t, second.Unlock(t.Context()))
	require.Zero(t, polls.Load())
}
