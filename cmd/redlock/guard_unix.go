//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardArg is the first argument of the process that guards a command. It is no command of the
// tool.
const guardArg = "__guard"

// guardName is what the list of processes calls it. killall redlock spares it, so that it can see to
// the command.
const guardName = "redlock-guard"

// A guard is a process that ends a command's group when its time is over, also if redlock is
// killed, stopped or does not get to run. It is in a session of its own, so that no signal of
// the terminal reaches it. It hears of what it has to know through a pipe, whose end is that of
// redlock:
//
//	group <process group>
//	kill <time at which the group must be gone, by bootTime>
//	told: redlock has sent SIGTERM, which the group is not to get twice
//	done
type guard struct {
	pid   int
	pipe  *os.File
	ready *os.File  // a byte comes when no signal of others ends it any more
	last  time.Time // when the group must be gone, as it was told last; zero: it was not
}

func startGuard(killAfter time.Duration) (*guard, error) {
	l, err := newLink()
	if err != nil {
		return nil, err
	}
	defer l.closeIts()
	g := &guard{pipe: l.write, ready: l.read}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		defer func() { _ = null.Close() }()
		// Without the environment, which may have secrets; and without redlock's output, whose
		// reader would wait for the guard, too.
		g.pid, err = syscall.ForkExec(l.program, []string{guardName, guardArg, killAfter.String()}, &syscall.ProcAttr{
			Dir:   "/",
			Files: []uintptr{l.itsRead.Fd(), l.itsWrite.Fd(), null.Fd()},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("the process that guards the command: %w", err)
	}
	return g, nil
}

// A link is a pipe to a process that is to be started, which is this program again, and one from it.
type link struct {
	program           string
	write, read       *os.File
	itsRead, itsWrite *os.File
}

func newLink() (l link, err error) {
	if l.program, err = ownProgram(); err != nil {
		return l, err
	}
	if l.itsRead, l.write, err = os.Pipe(); err != nil {
		return l, err
	}
	if l.read, l.itsWrite, err = os.Pipe(); err != nil {
		_, _ = l.itsRead.Close(), l.write.Close()
	}
	return l, err
}

// closeIts closes the ends that are the process's.
func (l link) closeIts() { _, _ = l.itsRead.Close(), l.itsWrite.Close() }

// ownProgram is the file of this program. Where the system can say it, it is the one that runs,
// even if another version has been installed in its place while redlock waited for the lock.
func ownProgram() (string, error) {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running, nil
	}
	return os.Executable()
}

// watch names the group, and when it must be gone. Nothing may run that the guard does not know of.
func (g *guard) watch(group int, at time.Time) error {
	err := g.write(killLine(at) + fmt.Sprintf("group %d\n", group))
	if err == nil {
		g.last = at
	}
	return err
}

// awaitReady waits until the guard is ready, at most until a time. A guard that is killed while it starts
// is an error: a signal to all processes of a service could end redlock, too, and leave the command alone.
func (g *guard) awaitReady(until time.Time) error {
	_ = g.ready.SetReadDeadline(until)
	_, err := g.ready.Read(make([]byte, 1))
	return err
}

// write sends lines, or fails at once: a guard whose pipe is full is stopped, and must not hold up
// redlock, which then sees to the group alone. The lines are so short that they are written as a whole
// or not at all.
func (g *guard) write(lines string) error {
	pipe, err := g.pipe.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = pipe.Write(func(fd uintptr) bool {
		_, failed = syscall.Write(int(fd), []byte(lines))
		return true
	})
	return errors.Join(err, failed)
}

// killAt says when the group must be gone.
func (g *guard) killAt(at time.Time) {
	if d := at.Sub(g.last); d > -time.Millisecond && d < time.Millisecond {
		return // The same, but for the rounding.
	}
	if g.write(killLine(at)) == nil {
		g.last = at // It is repeated otherwise: by an older time the guard would end a command that has its lock.
	}
}

// tells reports whether it tells the group to end, by what it was told last.
func (g *guard) tells(now time.Time, killAfter time.Duration) bool {
	return !g.last.IsZero() && left(g.last, now) <= killAfter
}

func killLine(at time.Time) string {
	// The clock first: if this process is stopped in between, the time is too early, not too late.
	now := bootTime()
	return fmt.Sprintf("kill %d\n", now+time.Until(at))
}

// told says that the group has been told to end.
func (g *guard) told() { _ = g.write("told\n") }

func (g *guard) done() {
	_ = g.write("done\n")
	g.close()
}

// close ends the guard, unless it knows of a group.
func (g *guard) close() { _, _ = g.pipe.Close(), g.ready.Close() }

// guardMain is the process.
func guardMain(args []string) int {
	killAfter, err := time.ParseDuration(strings.Join(args, ""))
	if err != nil {
		return exitUsage
	}
	nameProcess(guardName)
	// It ends with redlock, not before: also where a signal goes to all processes of a service, or
	// to all of a name.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	_, _ = os.Stdout.Write([]byte{1}) // It is ready. Redlock may be gone already.
	_ = os.Stdout.Close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	w := &watcher{killAfter: killAfter}
	for !w.over {
		w.step(lines)
	}
	return exitOK
}

// A watcher is the state of the guarding process. Its times are by bootTime.
type watcher struct {
	killAfter time.Duration
	group     int
	kill      time.Duration // 0: not known
	told      bool
	orphaned  bool // redlock is gone
	over      bool
}

// step waits for the next line, or until it is time to look at the clock: every now and then,
// as a timer may stand still while the machine sleeps.
func (w *watcher) step(lines <-chan string) {
	wait := 100 * time.Millisecond
	if w.orphaned {
		wait, lines = groupPoll, nil
	}
	if w.kill > 0 {
		wait = min(wait, max(w.kill-bootTime(), time.Millisecond))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case line, ok := <-lines:
		w.read(line, ok)
	case <-timer.C:
	}
	w.look()
}

func (w *watcher) read(line string, ok bool) {
	word, value, _ := strings.Cut(line, " ")
	number, _ := strconv.ParseInt(value, 10, 64)
	switch {
	case !ok:
		w.orphaned = true
		if at := bootTime() + w.killAfter; w.kill == 0 || at < w.kill {
			w.kill = at
		}
	case word == "group":
		w.group = int(number)
	case word == "kill":
		w.kill = time.Duration(number)
	case word == "told":
		w.told = true
	case word == "done":
		w.over = true
	}
}

func (w *watcher) look() {
	if w.over || w.group <= 1 {
		w.over = w.over || w.orphaned // Nothing was started.
		return
	}
	if w.orphaned && errors.Is(syscall.Kill(-w.group, 0), syscall.ESRCH) {
		w.over = true
		return
	}
	now := bootTime()
	if !w.told && (w.orphaned || w.kill > 0 && now >= w.kill-w.killAfter) {
		w.told = true
		if w.orphaned {
			tellOrphans(w.group)
		} else {
			_ = syscall.Kill(-w.group, syscall.SIGTERM)
		}
		_ = syscall.Kill(-w.group, syscall.SIGCONT)
	}
	if w.told && now >= w.kill {
		_ = syscall.Kill(-w.group, syscall.SIGKILL)
		// What is there for longer, nobody waits for, or the kernel cannot end.
		w.over = w.orphaned && now >= w.kill+10*time.Second
	}
}

// gateArg is the first argument of the process that becomes the command. It is no command of the
// tool.
const gateArg = "__gate"

// A gate holds the command back until the guard is ready and knows its group. A command that was
// started at once could run on without a lock, and with nobody who knows of it, if redlock were
// killed before it could name the group.
//
// The process of the command is this program at first, which waits for a byte on one pipe, and
// then becomes the command. If redlock is gone instead, so is the process. Over another pipe it
// says why the command cannot be run; the system closes that pipe when it has become the command.
type gate struct {
	group int // the process, and its group
	open  *os.File
	fails *os.File
}

// startGate starts the process in a group of its own.
func startGate(path string, args, env []string) (*gate, error) {
	l, err := newLink()
	if err != nil {
		return nil, err
	}
	defer l.closeIts()
	g := &gate{open: l.write, fails: l.read}
	// The ends keep their numbers, as the command has redlock's other open files under theirs.
	// Nothing else is started meanwhile.
	var ends [2]string
	for i, f := range []*os.File{l.itsRead, l.itsWrite} {
		fd := int(f.Fd())
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		if err = errors.Join(err, unix.SetNonblock(fd, false)); err != nil {
			g.close()
			return nil, err
		}
		ends[i] = strconv.Itoa(fd)
	}
	args = append([]string{l.program, gateArg, ends[0], ends[1], path}, args...)
	g.group, err = syscall.ForkExec(l.program, args, &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// pass has the process become the command. The error is why it could not.
func (g *gate) pass() error {
	defer g.close()
	if _, err := g.open.Write([]byte{1}); err != nil {
		return fmt.Errorf("its process has ended: %w", err)
	}
	_ = g.open.Close()
	said := []unix.PollFd{{Fd: int32(g.fails.Fd()), Events: unix.POLLIN}}
	for said[0].Revents == 0 {
		if n, err := unix.Poll(said, 100); n == 0 && err == nil {
			_ = syscall.Kill(-g.group, syscall.SIGCONT) // A Ctrl-Z may have stopped it, of which nobody hears yet.
		}
	}
	var says [4]byte
	n, _ := g.fails.Read(says[:])
	if n == 0 {
		return nil
	}
	number, _ := strconv.Atoi(string(says[:n]))
	return syscall.Errno(number)
}

// close ends the process, unless it has become the command.
func (g *gate) close() {
	_ = g.open.Close()
	_ = g.fails.Close()
}

// gateMain is the process. It becomes the command, or returns an exit code that nobody reads.
func gateMain(args []string) int {
	if len(args) < 4 {
		return exitUsage
	}
	waits, err := strconv.Atoi(args[0])
	if err != nil {
		return exitUsage
	}
	says, err := strconv.Atoi(args[1])
	if err != nil {
		return exitUsage
	}
	unix.CloseOnExec(waits)
	unix.CloseOnExec(says)
	endWithRedlock() // If that has ended already, there is nothing to be read.
	n, err := 0, error(syscall.EINTR)
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(waits, make([]byte, 1))
	}
	if n != 1 {
		return exitCannot // Redlock is gone, or has thought better of it.
	}
	err = syscall.Exec(args[2], args[3:], os.Environ())
	if number, ok := err.(syscall.Errno); ok { //nolint:errorlint // A system call's.
		_, _ = syscall.Write(says, []byte(strconv.Itoa(int(number))))
	}
	return exitCannot
}
