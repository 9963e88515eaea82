//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A hearer is a process group that writes down each SIGTERM that it gets, and ends after SIGWINCH.
type hearer struct {
	t    *testing.T
	cmd  *exec.Cmd
	file string
}

func startHearer(t *testing.T) *hearer {
	t.Helper()
	g := &hearer{t: t, file: filepath.Join(t.TempDir(), "heard")}
	g.cmd = exec.Command("sh", "-c", fmt.Sprintf(`
		trap 'echo term >>%[1]s' TERM; trap 'echo end >>%[1]s; exit' WINCH
		echo ready >>%[1]s; while :; do sleep 0.05; done`, g.file))
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, g.cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
		_ = g.cmd.Wait()
	})
	g.waitFor("ready")
	return g
}

func (g *hearer) waitFor(word string) {
	g.t.Helper()
	eventually(g.t, func() bool {
		text, _ := os.ReadFile(g.file)
		return strings.Contains(string(text), word)
	}, "%q", word)
}

// terms is how often it has heard SIGTERM. It is over afterwards. A shell sees to the signals of a moment
// in the order of their numbers, so that none is left.
func (g *hearer) terms() int {
	g.t.Helper()
	require.NoError(g.t, g.cmd.Process.Signal(syscall.SIGWINCH))
	g.waitFor("end")
	text, err := os.ReadFile(g.file)
	require.NoError(g.t, err)
	return strings.Count(string(text), "term")
}

// jobOver returns a job whose command is a group, what its guard hears, and where that says that it is ready.
func jobOver(t *testing.T, g *hearer) (j *job, hears, says *os.File) {
	t.Helper()
	lock := hold(t, testcluster.RunServers(t, 3), "x")
	t.Cleanup(func() { _ = lock.Unlock(context.Background()) }) // Or Close waits for its end.
	hears, write, err := os.Pipe()
	require.NoError(t, err)
	ready, says, err := os.Pipe()
	require.NoError(t, err)
	guard := &guard{pipe: write, ready: ready}
	t.Cleanup(func() {
		guard.close()
		_, _ = hears.Close(), says.Close()
	})
	return &job{
		task: task{tool: &tool{errOut: io.Discard}, lock: lock, margin: time.Second, killAfter: time.Second},
		kept: lock.KeepAlive(t.Context()), group: g.cmd.Process.Pid, guard: guard,
	}, hears, says
}

// writes has the job's command write a file, and returns that.
func (j *job) writes(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ran")
	sh, err := lookUp("sh")
	require.NoError(t, err)
	j.path, j.args, j.env = sh, []string{"sh", "-c", "echo ran >" + file}, os.Environ()
	return file
}

// A second SIGTERM means to many programs that there is no time to tidy up.
func TestJobTellsOnce(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	j, hears, _ := jobOver(t, g)
	j.look()
	assert.False(t, j.told, "the lock is held")
	j.killAfter = time.Hour // So it is time.
	j.look()
	g.waitFor("term")
	j.look()
	j.look()
	assert.Equal(t, 1, g.terms())
	require.NoError(t, j.guard.pipe.Close())
	text, err := io.ReadAll(hears)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(text), "told\n"), "%s", text)
}

func TestGuardTellsOnce(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	w := &watcher{group: g.cmd.Process.Pid, killAfter: time.Hour, kill: bootTime() + 2*time.Hour}
	w.look()
	assert.False(t, w.told, "it is not time")
	w.kill = bootTime() + time.Minute
	w.look()
	g.waitFor("term")
	w.look()
	w.look()
	assert.Equal(t, 1, g.terms())

	g = startHearer(t)
	w = &watcher{group: g.cmd.Process.Pid, killAfter: time.Hour, kill: bootTime() + time.Minute}
	w.read("told", true)
	w.look()
	assert.Zero(t, g.terms(), "redlock has told it")
}

// However long --kill-after is, the command is gone when its lock ends.
func TestKillAfterIsCapped(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	j, _, _ := jobOver(t, g)
	j.killAfter = time.Hour
	j.look()
	require.True(t, j.told)
	assert.False(t, j.killAt.After(j.lock.Until()))
	j.killAt = time.Now().Add(time.Hour)
	j.margin = time.Hour // As if the lock ended earlier than it seemed: a clock was set.
	j.look()
	var status syscall.WaitStatus
	eventually(t, func() bool {
		pid, err := syscall.Wait4(j.group, &status, syscall.WNOHANG, nil)
		require.NoError(t, err)
		return pid == j.group
	}, "the end")
	assert.Equal(t, syscall.SIGKILL, status.Signal())

	now := bootTime()
	w := &watcher{killAfter: time.Second, kill: now + time.Hour}
	w.read("", false)
	assert.LessOrEqual(t, w.kill, bootTime()+time.Second, "redlock is gone, and nobody extends the lock")
	w = &watcher{killAfter: time.Hour, kill: now + time.Second}
	w.read("", false)
	assert.Equal(t, now+time.Second, w.kill)
}

// A redlock that was stopped after it got the lock, and goes on when that has ended, starts nothing.
func TestJobStartsNothingTooLate(t *testing.T) {
	t.Parallel()
	j, _, _ := jobOver(t, startHearer(t))
	file := j.writes(t)
	j.margin = time.Hour // As if the lock ended now.
	err := j.start()
	code, _ := classify(err)
	assert.Equal(t, exitLost, code, "%v", err)
	var status syscall.WaitStatus
	_, err = syscall.Wait4(j.group, &status, 0, nil) // Also a command that was started ends.
	require.NoError(t, err)
	assert.NoFileExists(t, file)
}

// KeepAlive goes by the ttl, so its first extension may come too late: the job extends the lock in time, too.
func TestJobExtendsItsLock(t *testing.T) {
	t.Parallel()
	j, _, _ := jobOver(t, startHearer(t))
	f := &runFlags{ttl: time.Hour}
	j.extender = f.newExtender(j.lock)
	j.extender.due = time.Now().Add(50 * time.Millisecond)
	assert.LessOrEqual(t, j.next(), 50*time.Millisecond)
	j.extender.due = time.Now()
	j.look()
	eventually(t, func() bool { return time.Until(j.lock.Until()) > f.ttl/2 }, "the extension")
	assert.Greater(t, time.Until(j.extender.due), time.Minute, "the next one is not due yet")
}

// The clock that says less counts: the monotonic one may have stood still while the machine slept, and the
// wall clock may have been set back.
func TestJobGoesByBothClocks(t *testing.T) {
	now := time.Now()
	until := now.Add(time.Minute)
	assert.Equal(t, time.Minute, left(until, now))
	assert.Equal(t, -time.Minute, left(until, wallAhead(now, 2*time.Minute)))
	assert.Equal(t, time.Minute, left(until, wallAhead(now, -2*time.Minute)))
	assert.Equal(t, time.Second, left(until, now.Add(59*time.Second)))
}

// wallAhead is a reading of both clocks after the wall clock was set by d. In a time.Time with a monotonic
// reading, the wall clock's seconds begin at bit 30 of the first word.
func wallAhead(now time.Time, d time.Duration) time.Time {
	word := (*uint64)(unsafe.Pointer(&now))
	*word += uint64(int64(d/time.Second)) << 30
	return now
}
