//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/redlock"
)

// A job is a command that runs under a lock.
//
// One goroutine, that of run, decides everything; another one waits for children. The command
// must be gone when the lock ends, so all times are counted back from Until: at Until less
// margin the group is killed, and killAfter before that it is told to end. The guard, a process
// of its own, does the same half a margin later, for the case that this one is killed, stopped
// or starved.
type job struct {
	task

	kept     context.Context //nolint:containedctx // Ends with the lock.
	lapse    lapse
	group    int // the command's process group, and its process
	guard    *guard
	terminal *terminal // nil: none
	end      ending
	exited   bool      // the command itself has; others of its group may run
	suspend  bool      // redlock was asked to stop, as a shell does with all of a pipeline
	told     bool      // the group was told to end
	killAt   time.Time // once it was told
}

// groupPoll is how often the group is looked at once its leader has exited.
const groupPoll = 20 * time.Millisecond

// run runs the command, and returns when no process of its group is left.
func (j *job) run(ctx context.Context) (ending, error) {
	begin := moment{clock: bootTime()}
	j.lapse = lapse{every: j.margin, pace: j.extender.pace, until: j.lock.Until(), looked: begin, extended: begin}
	j.kept = j.lock.KeepAlive(context.WithoutCancel(ctx))
	var err error
	if j.guard, err = startGuard(j.killAfter); err != nil {
		return ending{}, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	defer func() { j.guard.done() }()
	notify(j.signals, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGTSTP)
	// Where nobody reads what redlock says, that must not end it.
	notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	adoptOrphans()
	outliveThreads()
	j.terminal = openTerminal()
	defer j.terminal.close()
	defer j.terminal.takeBack()
	if err = j.start(); err != nil {
		return ending{}, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	children := make(chan child, 16)
	go waitForChildren(children)
	for !j.gone() {
		j.step(children)
	}
	return j.end, nil
}

// start starts the command, once the guard can see to it.
func (j *job) start() error {
	gate, err := startGate(j.path, j.args, j.env)
	if err != nil {
		return fmt.Errorf("%s: %w", j.args[0], err)
	}
	j.group = gate.group
	err = j.guard.watch(j.group, j.deadline().Add(j.margin/2))
	if err == nil {
		err = j.guard.awaitReady(j.deadline().Add(-j.killAfter))
	}
	if err != nil {
		err = fmt.Errorf("the process that guards the command: %w", err)
	}
	if late := j.late(); late != nil {
		err = late
	}
	if err != nil {
		gate.close()
		return err
	}
	j.terminal.give(j.group) // Before it runs: top, which uses the terminal at once, would stop.
	if err = gate.pass(); err != nil {
		return fmt.Errorf("%s: %w", j.args[0], err)
	}
	return nil
}

// late is the reason for which a command must not be started any more: this process may have been
// stopped since it got the lock.
func (j *job) late() error {
	if j.kept.Err() == nil && time.Now().Before(j.deadline().Add(-j.killAfter)) {
		return nil
	}
	err := j.why()
	return codedError{because(err, "the lock was lost before the command was started"), exitLost, "lost"}
}

// step waits for the next thing to happen, and sees to it.
func (j *job) step(children <-chan child) {
	timer := time.NewTimer(j.next())
	defer timer.Stop()
	lost := j.kept.Done()
	if j.told {
		lost = nil
	}
	select {
	case c := <-children:
		j.see(c)
	case sig := <-j.signals:
		j.forward(sig.(syscall.Signal))
	case <-lost:
	case <-timer.C:
	}
	j.look()
}

// deadline is when the group is to be gone.
func (j *job) deadline() time.Time {
	now := time.Now()
	return now.Add(left(j.lock.Until(), now) - j.margin)
}

// left is how long it is from one time to another, by the clock that says less: the monotonic one may
// have stood still while the machine slept.
func left(until, now time.Time) time.Duration {
	return min(until.Sub(now), until.Round(0).Sub(now.Round(0)))
}

// next is how long nothing needs to be done, if nothing happens.
func (j *job) next() time.Duration {
	if j.exited {
		return groupPoll
	}
	// The deadline moves with every extension, which is nothing that one could wait for.
	at, now := j.deadline().Add(-j.killAfter), time.Now()
	at = earlier(at, j.extender.due)
	if j.told {
		at = j.killAt
	}
	return max(min(at.Sub(now), time.Second, j.margin), 0)
}

// look ends the group if it is time, and extends the lock otherwise.
func (j *job) look() {
	now, deadline := time.Now(), j.deadline()
	j.lapse.look(j.lock.Until(), bootTime())
	// A redlock that was stopped finds the lock extended if the answers came meanwhile, of which the guard
	// could not hear.
	guarded := j.guard.tells(now, j.killAfter)
	j.guard.killAt(deadline.Add(j.margin / 2))
	if !j.told && (guarded || j.kept.Err() != nil || !now.Before(deadline.Add(-j.killAfter))) {
		j.told, j.end.killed = true, true
		j.end.lost = j.why()
		j.killAt = earlier(deadline, now.Add(j.killAfter))
		j.guard.told()
		j.signal(syscall.SIGTERM)
		j.signal(syscall.SIGCONT) // One that is stopped could not end.
		go j.tool.note("the lock cannot be kept: ending the command")
	}
	if !j.told {
		j.extender.look(j.kept, now)
	}
	if j.told && !now.Before(earlier(j.killAt, deadline)) {
		j.signal(syscall.SIGKILL)
		j.killAt = now.Add(groupPoll) // Whoever was being forked at that moment.
	}
}

// why is the reason for which the command must end, or must not be started. That the validity is over does
// not say why it was not extended.
func (j *job) why() error {
	err := j.lock.Err()
	if err == nil && j.kept.Err() != nil {
		err = context.Cause(j.kept)
	}
	if err != nil && !errors.Is(err, redlock.ErrExpired) {
		return err
	}
	j.lapse.look(j.lock.Until(), bootTime())
	if own := j.lapse.why(); own != nil {
		return own
	}
	return errors.New("it could not be extended in time, as too few nodes answered")
}

// signal sends a signal to the group.
func (j *job) signal(sig syscall.Signal) { _ = syscall.Kill(-j.group, sig) }

// gone reports whether no process of the group is left. EPERM means that there is one, of
// another user.
func (j *job) gone() bool {
	return j.exited && errors.Is(syscall.Kill(-j.group, 0), syscall.ESRCH)
}

// see takes note of what has become of a child.
func (j *job) see(c child) {
	switch {
	case c.pid == j.guard.pid:
		j.guardAgain(c.status)
	case c.status.Stopped():
		if c.pid == j.group || j.exited && inGroup(c.pid, j.group) {
			j.stopped(c.status.StopSignal())
		}
	case c.pid != j.group:
	case c.status.Signaled():
		j.exited = true
		j.end.signal = c.status.Signal()
		j.end.code = exitSignal + int(j.end.signal)
	case c.status.Exited():
		j.exited = true
		j.end.code = c.status.ExitStatus()
	}
}

// guardAgain has the group guarded again, after somebody has stopped the guard or killed it.
func (j *job) guardAgain(s syscall.WaitStatus) {
	if s.Stopped() {
		_ = syscall.Kill(j.guard.pid, syscall.SIGCONT)
		return
	}
	g, err := startGuard(j.killAfter)
	if err != nil {
		j.guard.pid, j.guard.last = 0, time.Time{} // Redlock sees to the group alone.
		return
	}
	j.guard.done()
	j.guard = g
	if j.told {
		g.told()
	}
	_ = g.watch(j.group, j.deadline().Add(j.margin/2))
}

// holds reports whether the group may run.
func (j *job) holds() bool { return j.lock.Err() == nil && time.Now().Before(j.deadline()) }

// inGroup reports whether a process is in a group.
func inGroup(pid, group int) bool {
	its, err := syscall.Getpgid(pid)
	return err == nil && its == group
}

// A child is what has become of a child process.
type child struct {
	pid    int
	status syscall.WaitStatus
}

// waitForChildren waits for every child: the command, what it has left behind, and the guard.
func waitForChildren(children chan<- child) {
	for {
		c := child{}
		pid, err := syscall.Wait4(-1, &c.status, unix.WUNTRACED, nil)
		switch {
		case err == nil:
			c.pid = pid
			children <- c
		case errors.Is(err, syscall.EINTR):
		default: // ECHILD: there is none, and there will be none.
			return
		}
	}
}
