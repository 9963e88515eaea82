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
		task: task{
			tool: &tool{errOut: io.Discard}, lock: lock, margin: time.Second, killAfter: time.Second,
			extender: &extender{due: time.Now().Add(time.Hour)},
		},
		kept: lock.KeepAlive(t.Context()), group: g.cmd.Process.Pid, guard: guard,
	}, hears, says
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

// A redlock that was stopped after it got the lock, and goes on when that has ended, starts nothing. Neither does one
// whose guard does not know of the command, which would run on without a lock if redlock were killed, or whose guard
// could be killed by a signal to all of a service.
func TestJobStartsNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		happens func(j *job, hears, says *os.File)
		code    int
		says    string
	}{
		"too late":                       {func(j *job, _, _ *os.File) { j.margin = time.Hour }, exitLost, "was started"},
		"the guard is gone":              {func(_ *job, hears, _ *os.File) { _ = hears.Close() }, exitInternal, "guards"},
		"the guard was killed too early": {func(_ *job, _, says *os.File) { _ = says.Close() }, exitInternal, "guards"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, hears, says := jobOver(t, startHearer(t))
			tt.happens(j, hears, says)
			file := filepath.Join(t.TempDir(), "ran")
			sh, err := lookUp("sh")
			require.NoError(t, err)
			j.path, j.args, j.env = sh, []string{"sh", "-c", "echo ran >" + file}, os.Environ()
			err = j.start()
			require.ErrorContains(t, err, tt.says)
			code, _ := classify(err)
			assert.Equal(t, tt.code, code)
			var status syscall.WaitStatus
			_, err = syscall.Wait4(j.group, &status, 0, nil) // Also a command that was started ends.
			require.NoError(t, err)
			assert.NoFileExists(t, file)
		})
	}
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
// wall clock may have been set back. In a time.Time with a monotonic reading, the wall clock's seconds begin at bit 30
// of the first word.
func TestJobGoesByBothClocks(t *testing.T) {
	begin := time.Now()
	until := begin.Add(time.Minute)
	assert.Equal(t, time.Second, left(until, begin.Add(59*time.Second)))
	for set, want := range map[int64]time.Duration{0: time.Minute, 120: -time.Minute, -120: time.Minute} {
		now := begin
		*(*uint64)(unsafe.Pointer(&now)) += uint64(set) << 30
		assert.Equal(t, want, left(until, now), "the wall clock was set by %d s", set)
	}
}

// The command has redlock's open files under the same numbers, and no others.
func TestRunOpenFiles(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	file, err := os.Create(filepath.Join(t.TempDir(), "third"))
	require.NoError(t, err)
	cmd := command(t, c, "run", "x", "--", "sh", "-c", `echo third >&3; for f in 4 5 6 7 8 9; do (true >&$f) 2>/dev/null && echo open $f; done; exit 0`)
	cmd.ExtraFiles = []*os.File{file}
	p := startCommand(t, cmd)
	require.NoError(t, file.Close())
	assert.Equal(t, 0, p.wait(), "%s", p.errOut)
	text, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Equal(t, "third\n", string(text))
	assert.Empty(t, p.out.String())
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

// The reason is this process if it did not run for what it takes to ask again and again, and the nodes
// otherwise.
func TestLapse(t *testing.T) {
	const leeway, every = 20 * time.Second, 100 * time.Millisecond
	for _, test := range []struct{ name, happens, own string }{
		{"the nodes do not answer", "run 20s", ""},
		{"it was stopped at once", "stop 20s", "redlock did not run for 19.8s, as it was stopped"},
		{"it was stopped before an extension", "run 7s stop 13s", "redlock did not run for 12.8s"},
		{"it was stopped again and again", "stop 7s run 1s stop 7s run 1s stop 7s", "redlock did not run for 20.6s"},
		{"it was stopped for a moment while they did not answer", "run 17s stop 3s", ""},
		{"it was stopped before the last extension", "stop 1h extend 1s run 20s", ""},
		{"it was stopped after an extension", "run 17s stop 20s extend 20s", "redlock did not run for 19.8s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock, until := time.Duration(0), time.Now()
			l := &lapse{every: every, pace: leeway / triesOfLeeway, until: until}
			words := strings.Fields(test.happens)
			for i := 0; i < len(words); i += 2 {
				d, err := time.ParseDuration(words[i+1])
				require.NoError(t, err)
				switch words[i] {
				case "run":
					for end := clock + d; clock < end; l.look(until, clock) {
						clock += every
					}
				case "stop":
					clock += d
				case "extend":
					until = until.Add(d)
				}
			}
			l.look(until, clock)
			if test.own == "" {
				require.NoError(t, l.why())
			} else {
				require.ErrorContains(t, l.why(), test.own)
			}
		})
	}
}

// That the validity is over does not say why. That the lock is gone does.
func TestJobSaysWhyItsLockWasLost(t *testing.T) {
	t.Parallel()
	j, _, _ := jobOver(t, startHearer(t))
	j.lapse = lapse{pace: time.Hour}
	assert.Regexp(t, "^redlock did not run for [1-9]", j.why().Error())
	j.lapse = lapse{}
	require.ErrorContains(t, j.why(), "too few nodes answered")
	require.NoError(t, j.lock.Unlock(t.Context()))
	j.lapse = lapse{pace: time.Hour}
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
