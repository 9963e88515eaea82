package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Whoever kills redlock and its guard at once (pkill -9 redlock) leaves the command to the kernel.
func TestRunKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p := start(t, c, "run", "x", "--", "sh", "-c", `echo group $$; exec sleep 600`)
	group := groupOf(t, p)
	guards := childrenOf(t, p.cmd.Process.Pid, group)
	require.Len(t, guards, 1)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP), "or it might start another guard")
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	waitGone(t, group)
}

// The command hears of redlock's end from the kernel, and the others of its group once, from the guard. A
// second SIGTERM means to many programs that there is no time to tidy up.
func TestRunKilledTellsTheGroup(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	file := filepath.Join(t.TempDir(), "told")
	script := fmt.Sprintf(`
		(trap 'echo other >>%[1]s' TERM; : >%[1]s; while :; do sleep 0.05; done) &
		trap 'echo itself >>%[1]s' TERM; trap 'echo end >>%[1]s; exit' WINCH
		until [ -e %[1]s ]; do sleep 0.05; done
		echo group $$; while :; do sleep 0.05; done`, file)
	p := start(t, c, "run", "--ttl", "4m", "--kill-after", "2m", "x", "--", "sh", "-c", script)
	group := groupOf(t, p)
	told := func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	eventually(t, func() bool { return strings.Contains(told(), "itself") && strings.Contains(told(), "other") }, "the word")
	require.NoError(t, syscall.Kill(group, syscall.SIGWINCH)) // Which a shell sees to after SIGTERM.
	eventually(t, func() bool { return strings.Contains(told(), "end") }, "the end")
	assert.Equal(t, 1, strings.Count(told(), "other"))
}

// The command itself has heard of redlock's end from the kernel, and not from the guard.
func TestGuardTellsOnlyTheOthers(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	w := &watcher{group: g.cmd.Process.Pid, killAfter: time.Hour}
	w.read("", false)
	w.look()
	assert.True(t, w.told)
	assert.Zero(t, g.terms())
}
