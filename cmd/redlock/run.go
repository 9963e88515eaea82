package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
)

// minTTL is the shortest ttl of redlock run: with less there is no time to end a command in.
const minTTL = time.Second

// runFlags are the flags of redlock run.
type runFlags struct {
	ttl       time.Duration
	wait      string
	atLeast   time.Duration
	killAfter time.Duration
	fence     bool
	owner     string
	quiet     bool
	permits   int // 0: a lock

	forever bool          // --wait forever
	waitFor time.Duration // otherwise; 0: one attempt
}

func (t *tool) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := manual("run")
	cmd.ValidArgsFunction = nil // Its command may take files.
	cmd.Args = func(cmd *cobra.Command, args []string) error { return checkRunArgs(cmd.ArgsLenAtDash(), args) }
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.complete(cmd.Flags().Changed, t.global.quarantine); err != nil {
			return err
		}
		at := cmd.ArgsLenAtDash()
		if err := checkPermits(cmd, f.permits, at); err != nil {
			return err
		}
		if f.limitKillAfter(t.global.nodeTimeout) && !f.quiet {
			t.note(fmt.Sprintf("--kill-after is %s: more of a ttl of %v would leave no time for extensions that fail", shortly(f.killAfter), f.ttl))
		}
		return t.run(cmd.Context(), f, args[:at], args[at:])
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.DurationVar(&f.ttl, "ttl", 30*time.Second, "for how long the lock lives without being extended: the longest that others wait if this machine dies")
	fs.StringVar(&f.wait, "wait", "forever", "how long to wait for the lock: `TIME` is a duration, 0 for a single attempt, or forever")
	fs.DurationVar(&f.atLeast, "at-least", 0, "keep the lock until so long after it was taken, also if the command ends earlier or fails, or this machine dies: nobody repeats it until then. It raises the ttl where that is shorter")
	fs.DurationVar(&f.killAfter, "kill-after", 5*time.Second, "when the lock cannot be kept, the time between SIGTERM and SIGKILL; at most half of the ttl, and less of a short one, so that extensions that fail can be made up for. By default, a quarter of the ttl where that is shorter")
	permitsFlag(cmd, &f.permits, "take one of `K` permits, from 1 to 256, instead of the lock: so many commands run at a time. It must be the same number everywhere")
	fs.BoolVar(&f.fence, "fence", false, "take a fencing token, which the command finds in REDLOCK_FENCE. With --permits, each slot has its own")
	fs.BoolVar(&f.quiet, "quiet", false, "say nothing if the lock is taken, waited for, or if its release cannot be confirmed. The exit code is the same, and all other errors are told: usage, no quorum, a lock that was lost. What the command writes is its own")
	fs.StringVar(&f.owner, "owner", ownerLabel(os.Getpid()), "the `LABEL` that others are shown as the holder")
	fs.Lookup("owner").DefValue = "HOST/PID"
	return cmd
}

// ownerLabel names this machine and one of its processes.
func ownerLabel(pid int) string {
	host, err := os.Hostname()
	if err != nil || len(host) > 100 {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(pid)
}

// checkRunArgs checks the arguments; dash is how many stand before the --, -1 without one.
func checkRunArgs(dash int, args []string) error {
	switch {
	case dash < 0:
		return usagef("no -- between the resources and the command")
	case dash == 0:
		return usagef("no resource is named before --")
	case dash == len(args):
		return usagef("no command after --")
	}
	return nil
}

// complete checks the flags, and works out what depends on others.
func (f *runFlags) complete(given func(flag string) bool, quarantine time.Duration) error {
	if f.wait == "forever" {
		f.forever = true
	} else {
		d, err := time.ParseDuration(f.wait)
		if f.wait == "0" {
			d, err = 0, nil
		}
		if err != nil || d < 0 {
			return usagef("--wait %q: want a duration such as 5m, 0 or forever", f.wait)
		}
		f.waitFor = d
	}
	if f.atLeast < 0 {
		return usagef("--at-least %v: must not be negative", f.atLeast)
	}
	// A lock that would end earlier if this machine died could not promise it.
	f.ttl = max(f.ttl, f.atLeast)
	if f.ttl < minTTL {
		return usagef("--ttl %v: must be at least %v", f.ttl, minTTL)
	}
	if !given("kill-after") {
		f.killAfter = min(f.killAfter, f.ttl/4)
	}
	if f.killAfter < 0 || f.killAfter > f.ttl/2 {
		return usagef("--kill-after %v: must be from 0 to half of the ttl, %v", f.killAfter, f.ttl/2)
	}
	return f.fits(quarantine)
}

// fits reports a ttl that is longer than the longest one of all clients, 0 if there is no quarantine.
func (f *runFlags) fits(quarantine time.Duration) error {
	if quarantine <= 0 || f.ttl <= quarantine {
		return nil
	}
	flag := "ttl"
	if f.ttl == f.atLeast {
		flag = "at-least"
	}
	return usagef("--%s %v: must not exceed --quarantine %v, the longest ttl of all clients", flag, f.ttl, quarantine)
}

// options are those of the lock.
func (f *runFlags) options() []redlock.Option {
	opts := []redlock.Option{
		redlock.WithOwner(f.owner), redlock.WithMinHold(f.atLeast),
		redlock.WithRetryCount(-1), redlock.WithRetryIf(mayComeFree),
	}
	if f.fence {
		opts = append(opts, redlock.WithFencing())
	}
	return opts
}

func (t *tool) run(ctx context.Context, f *runFlags, resources, command []string) error {
	// Before the lock: where the program is missing, another machine may have it.
	path, err := lookUp(command[0])
	if err != nil {
		return err
	}
	r, lock, signals, err := t.takeLock(ctx, f, resources)
	if err != nil {
		return err
	}
	defer signal.Stop(signals)
	j := &job{task: task{
		tool: t, lock: lock, path: path, args: command, killAfter: f.killAfter, signals: signals,
		env: f.environment(os.Environ(), lock), margin: f.margin(), extender: f.newExtender(lock),
	}}
	end, err := j.run(ctx)
	if errors.Is(err, errNotStarted) {
		// The job has not run: nothing is to keep it from running elsewhere, not even --at-least.
		_ = r.Release(ctx, lock.Resources(), lock.Token())
		_ = lock.Unlock(ctx) // There is nothing left of it, but nobody extends it any more.
		t.close(ctx, r)
		var late codedError
		if errors.As(err, &late) {
			return late
		}
		return codedError{err, exitCannot, "cannot run"}
	}
	released := lock.Unlock(ctx)
	t.close(ctx, r)
	return t.outcome(end, released, f.quiet)
}

// A task is a command, and the lock under which it is to run.
type task struct {
	tool      *tool
	lock      *redlock.Lock
	path      string
	args      []string
	env       []string
	killAfter time.Duration
	margin    time.Duration
	extender  *extender
	signals   chan os.Signal
}

// lookUp finds a program as a shell does.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return "", codedError{fmt.Errorf("%s: no such command", name), exitNotFound, "not found"}
	default:
		return "", codedError{fmt.Errorf("%s: %w", name, errors.Unwrap(err)), exitCannot, "cannot run"}
	}
}

// close lets go of the connections, once what is on its way to the nodes is there. That is of use
// also when ctx has ended.
func (t *tool) close(ctx context.Context, r *redlock.Redlock) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = r.Close(ctx)
}

// environment is the command's.
func (f *runFlags) environment(own []string, lock *redlock.Lock) []string {
	env := make([]string, 0, len(own)+4)
	for _, v := range own {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "REDLOCK_RESOURCES", "REDLOCK_TOKEN", "REDLOCK_FENCE", "REDLOCK_SLOT", holdersVar:
		default:
			env = append(env, v)
		}
	}
	env = append(env, "REDLOCK_RESOURCES="+strings.Join(lock.Resources(), "\n"), "REDLOCK_TOKEN="+lock.Token(), holdersVar+"="+holdersFor(lock))
	if fence := lock.Fence(); fence > 0 {
		env = append(env, "REDLOCK_FENCE="+strconv.FormatInt(fence, 10))
	}
	if f.permits > 0 {
		env = append(env, "REDLOCK_SLOT="+strconv.Itoa(slotNumber(lock)))
	}
	return env
}

// errNotStarted is the error of a command that could not be started.
var errNotStarted = errors.New("not started")

// An ending is how a command ended.
type ending struct {
	code   int
	signal syscall.Signal // that has ended it; 0: none
	lost   error          // why the lock was lost while it ran; nil: it was not
	killed bool           // it was ended because of that
}

// outcome says what becomes of a command's end, and of its lock's release. A quiet one does not mention
// a release that could not be confirmed: the keys end by themselves, and nobody has anything to do.
func (t *tool) outcome(end ending, released error, quiet bool) error {
	switch {
	case end.killed:
		return codedError{because(end.lost, "the lock was lost, and the command ended"), exitLost, "lost"}
	case end.lost != nil, errors.Is(released, redlock.ErrLost):
		if end.lost == nil {
			end.lost = released
		}
		return codedError{because(end.lost, "the lock was lost before the command ended (with %d): somebody else may have had it meanwhile", end.code), exitLost, "lost"}
	case released != nil && !quiet:
		t.note("the release could not be confirmed: " + sentence(released))
	}
	t.status = end.status()
	return nil
}

// The command must be told to end while the lock still has the time of --kill-after and a margin to
// live, so it is not the ttl that extensions have, but what is left of it by then: the leeway. Three of
// them begin in it, a quarter of it apart, and the last one has a quarter for its answer. So two that
// fail can be made up for. KeepAlive alone goes by the ttl: its first one may come too late.
const triesOfLeeway = 4

// margin is how long before the end of its lock a command must be gone.
func (f *runFlags) margin() time.Duration { return min(500*time.Millisecond, f.ttl/10) }

// leeway is the time from an extension to SIGTERM, if none follows. A fiftieth is more than the drift.
func (f *runFlags) leeway() time.Duration { return f.ttl - f.ttl/50 - f.margin() - f.killAfter }

// limitKillAfter limits --kill-after to what leaves each extension of the leeway its node timeout, and
// reports whether it has. A quarter of the ttl is always allowed.
func (f *runFlags) limitKillAfter(nodeTimeout time.Duration) bool {
	most := max(f.killAfter+f.leeway()-triesOfLeeway*nodeTimeout, f.ttl/4)
	if f.killAfter <= most {
		return false
	}
	f.killAfter = most
	return true
}

// An extender extends a lock in time for its command to go on. It does not wait for answers: one that is lost does not
// hold up the next.
type extender struct {
	lock *redlock.Lock
	ttl  time.Duration
	pace time.Duration
	due  time.Time // of the next extension
}

// newExtender returns the extender of a lock that was just taken.
func (f *runFlags) newExtender(lock *redlock.Lock) *extender {
	pace := f.leeway() / triesOfLeeway
	told := lock.Until().Add(-f.margin() - f.killAfter)
	return &extender{lock, f.ttl, pace, told.Add(-(triesOfLeeway - 1) * pace)}
}

// look extends the lock if it is time. ctx is that of KeepAlive.
func (e *extender) look(ctx context.Context, now time.Time) {
	if now.Before(e.due) {
		return
	}
	e.due = now.Add(e.pace)
	go func() { _ = e.lock.Extend(ctx, e.ttl) }() // KeepAlive notices a loss.
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
