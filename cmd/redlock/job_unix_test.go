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
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
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

// A command of which the guard does not know would run on without a lock if redlock were killed: it
// is not started before the guard knows of it, and could not be killed by a signal to all of a service.
func TestRunNothingThatNobodyGuards(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(hears, says *os.File) error{
		"the guard is gone":              func(hears, _ *os.File) error { return hears.Close() },
		"the guard was killed too early": func(_, says *os.File) error { return says.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, hears, says := jobOver(t, startHearer(t))
			require.NoError(t, end(hears, says))
			file := j.writes(t)
			require.ErrorContains(t, j.start(), "guards")
			var status syscall.WaitStatus
			_, err := syscall.Wait4(j.group, &status, 0, nil)
			require.NoError(t, err)
			assert.NoFileExists(t, file)
		})
	}
}

// The process that becomes the command ends with redlock, whenever that ends.
func TestGateEndsWithRedlock(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	sh, err := lookUp("sh")
	require.NoError(t, err)
	g, err := startGate(sh, []string{"sh", "-c", "echo ran >" + file}, os.Environ())
	require.NoError(t, err)
	g.close()
	var status syscall.WaitStatus
	_, err = syscall.Wait4(g.group, &status, 0, nil)
	require.NoError(t, err)
	assert.Equal(t, exitCannot, status.ExitStatus())
	assert.NoFileExists(t, file)
}

// The command has redlock's open files under the same numbers, and no others.
func TestRunOpenFiles(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	cmd := command(t, c, "run", "x", "--", "sh", "-c", `echo third >&3; for f in 4 5 6 7 8 9; do (true >&$f) 2>/dev/null && echo open $f; done; exit 0`)
	cmd.ExtraFiles = []*os.File{write}
	p := startCommand(t, cmd)
	require.NoError(t, write.Close())
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	text := make([]byte, 100)
	n, err := read.Read(text)
	require.NoError(t, err)
	assert.Equal(t, "third\n", string(text[:n]))
	assert.Empty(t, p.out.String())
}

// Somebody kills the guard: redlock has the command guarded by another one.
func TestRunGuardKilled(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	p, group := startGroup(t, c, `trap '' TERM; trap 'echo heard' USR1; echo group $$; while :; do sleep 0.05; done`)
	old := childrenOf(t, p.cmd.Process.Pid, group)
	require.Len(t, old, 1)
	require.NoError(t, syscall.Kill(old[0], syscall.SIGKILL))
	eventually(t, func() bool {
		now := childrenOf(t, p.cmd.Process.Pid, group)
		return len(now) == 1 && now[0] != old[0]
	}, "another guard")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
	p.waitFor("heard") // So redlock is done with the guard.
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGKILL))
	waitGone(t, group)
}

// Somebody stops the guard: redlock has it go on.
func TestRunGuardStopped(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "600")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := cmd.Process.Pid
	j := &job{guard: &guard{pid: pid}}
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	c := child{}
	var err error
	c.pid, err = syscall.Wait4(pid, &c.status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, c.status.Stopped())
	j.see(c)
	_, err = syscall.Wait4(pid, &c.status, unix.WCONTINUED, nil)
	require.NoError(t, err)
	assert.True(t, c.status.Continued())
}

// A guard that could not be told of an extension is told again, or it would end a command that has
// its lock.
func TestGuardIsToldAgain(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = read.Close() }()
	g := &guard{pipe: write}
	for err == nil { // A line after the other, which the guard does not read.
		err = g.write(strings.Repeat("x", 1<<12))
	}
	require.ErrorIs(t, err, syscall.EAGAIN, "it does not hold up redlock")
	at := time.Now().Add(time.Minute)
	g.killAt(at)
	full := make([]byte, 1<<22)
	n, err := read.Read(full)
	require.NoError(t, err)
	require.Positive(t, n)
	g.killAt(at)
	require.NoError(t, write.Close())
	rest, err := io.ReadAll(read)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(rest), "kill "))
}

// stallable is a process's own time in a bubble. stop stops the process, as nothing else does there: time
// goes on without it.
func stallable(t *testing.T, every time.Duration) (o *ownTime, stop func(time.Duration)) {
	t.Helper()
	begun, stopped := time.Now(), time.Duration(0)
	o = startOwnTime(every, func() time.Duration {
		return time.Since(begun) + stopped
	})
	t.Cleanup(o.stop)
	return o, func(d time.Duration) {
		o.mu.Lock()
		defer o.mu.Unlock()
		stopped += d
	}
}

func TestOwnTimeStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, stop := stallable(t, 100*time.Millisecond)
		begin := o.now()
		time.Sleep(time.Hour)
		now := o.now()
		assert.Zero(t, begin.stalled(now))
		assert.Equal(t, time.Hour, now.own)
		stop(time.Minute)
		now = o.now()
		assert.InDelta(t, time.Minute, begin.stalled(now), float64(200*time.Millisecond), "it need not wait for the next tick")
		time.Sleep(time.Hour)
		assert.Equal(t, begin.stalled(now), begin.stalled(o.now()), "a stall counts once")
	})
}

// The reason is this process if it did not run for what it takes to ask again and again, and the nodes
// otherwise.
func TestLapse(t *testing.T) {
	t.Parallel()
	const leeway = 20 * time.Second
	for _, test := range []struct {
		name   string
		happen func(l *lapse, stop func(time.Duration))
		own    string // a part of the reason; empty: the nodes
	}{
		{"the nodes do not answer", func(*lapse, func(time.Duration)) { time.Sleep(leeway) }, ""},
		{"it was stopped at once", func(_ *lapse, stop func(time.Duration)) { stop(leeway) }, "redlock did not run for 19.8s, as it was stopped"},
		{"it was stopped before an extension", func(_ *lapse, stop func(time.Duration)) {
			time.Sleep(leeway / 3)
			stop(leeway * 2 / 3)
		}, "redlock did not run for 13."},
		{"it was stopped again and again", func(_ *lapse, stop func(time.Duration)) {
			for range 10 {
				stop(leeway / 10)
				time.Sleep(time.Second / 2)
			}
		}, "redlock did not run for 19"},
		{"it was stopped for a moment while they did not answer", func(_ *lapse, stop func(time.Duration)) {
			time.Sleep(leeway * 7 / 8)
			stop(leeway / 8)
		}, ""},
		{"it was stopped before the last extension", func(l *lapse, stop func(time.Duration)) {
			stop(time.Hour)
			l.look(l.until)
			time.Sleep(time.Second)
			l.look(l.until.Add(time.Hour))
			time.Sleep(leeway)
		}, ""},
		{"it was stopped after an extension that it has not seen", func(l *lapse, stop func(time.Duration)) {
			time.Sleep(leeway / 2)
			l.look(l.until)
			time.Sleep(leeway / 3)
			stop(leeway)
			l.look(l.until.Add(leeway))
		}, "redlock did not run for 19."},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o, stop := stallable(t, 100*time.Millisecond)
				l := startLapse(o, leeway/triesOfLeeway, time.Now().Add(leeway))
				test.happen(l, stop)
				err := l.why()
				if test.own == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, test.own)
			})
		})
	}
}

// That the validity is over does not say why. That the lock is gone does.
func TestJobSaysWhyItsLockWasLost(t *testing.T) {
	t.Parallel()
	j, _, _ := jobOver(t, startHearer(t))
	o := startOwnTime(time.Hour, bootTime)
	t.Cleanup(o.stop)
	j.lapse = startLapse(o, time.Hour, j.lock.Until())
	require.ErrorContains(t, j.why(), "redlock did not run for ")
	j.lapse = nil
	require.ErrorContains(t, j.why(), "too few nodes answered")
	require.NoError(t, j.lock.Unlock(t.Context()))
	j.lapse = startLapse(o, time.Hour, j.lock.Until())
	err := j.why()
	require.ErrorIs(t, err, redlock.ErrLost)
	assert.NotErrorIs(t, err, redlock.ErrExpired)
}

// The answers to an extension may have come while redlock was stopped, of which its guard could not hear:
// it has told the command to end, and that is not the command's own end.
func TestJobKnowsWhatItsGuardHasDone(t *testing.T) {
	t.Parallel()
	g := startHearer(t)
	j, _, _ := jobOver(t, g)
	require.NoError(t, j.guard.watch(j.group, time.Now().Add(j.killAfter+time.Minute)))
	j.look()
	assert.False(t, j.told)
	require.NoError(t, j.guard.watch(j.group, time.Now().Add(j.killAfter)))
	j.look()
	assert.True(t, j.told)
	assert.True(t, j.end.killed)
	require.NoError(t, j.lock.Err(), "the lock is held")
	j, _, _ = jobOver(t, startHearer(t))
	j.guard.last = time.Time{}
	j.look()
	assert.False(t, j.told, "without a guard")
}
