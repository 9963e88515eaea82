package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// A keyboard is a shell with job control on a terminal, and what is typed there.
type keyboard struct {
	t      *testing.T
	master *os.File
	screen *buffer
	seen   int // how much of the screen earlier calls have waited for
}

// program returns the path of a program, or ends the test where it is missing.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	return path
}

// sitDown starts a shell in which $TOOL is the tool.
func sitDown(t *testing.T, c *testcluster.Cluster) *keyboard {
	t.Helper()
	bash := program(t, "bash")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(bash, "--norc", "--noprofile", "--noediting", "-i")
	cmd.Env = append(os.Environ(), asTool+"=1", "REDLOCK_NODES="+strings.Join(c.Addrs(), ","), "TOOL="+self, "PS1=$ ", "TERM=dumb")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	_ = slave.Close()
	k := &keyboard{t: t, master: master, screen: &buffer{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			_, _ = k.screen.Write(part[:n])
			if err != nil { // EIO: nobody has the terminal any more.
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = master.Close()
		if t.Failed() {
			t.Logf("the screen:\n%s", k.screen)
		}
	})
	return k
}

// enter types a text, and waits for what it comes to, one text after the other.
func (k *keyboard) enter(text string, comesTo ...string) {
	k.t.Helper()
	_, err := k.master.WriteString(text)
	require.NoError(k.t, err)
	for _, text := range comesTo {
		k.see(text)
	}
}

// see waits for a text behind what was seen before.
func (k *keyboard) see(text string) {
	k.t.Helper()
	eventually(k.t, func() bool {
		screen := k.screen.String()
		at := strings.Index(screen[k.seen:], text)
		if at >= 0 {
			k.seen += at + len(text)
		}
		return at >= 0
	}, "%q on the screen", text)
}

// number waits for the rest of the line, which is the number of a process group.
func (k *keyboard) number() (group int) {
	k.t.Helper()
	eventually(k.t, func() bool {
		line, _, whole := strings.Cut(k.screen.String()[k.seen:], "\n")
		var err error
		group, err = strconv.Atoi(strings.TrimSpace(line))
		return whole && err == nil
	}, "a number on the screen")
	k.t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
	return group
}

// foreground is the process group that has the terminal.
func (k *keyboard) foreground() int {
	group, err := unix.IoctlGetInt(int(k.master.Fd()), unix.TIOCGPGRP)
	require.NoError(k.t, err)
	return group
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
	ctrlS = "\x13"
	ctrlQ = "\x11"
)

// The commands are such that a Ctrl-Z stops them at any moment: a shell that starts programs by vfork(2), as dash does,
// does not stop if the program was stopped before it was loaded.
var terminalRun = `$TOOL run --ttl `

func TestTerminal(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	t.Run("input, Ctrl-Z and fg", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(terminalRun+`60s x -- sh -c 'echo RE""ADY; read a; echo "got <$a>"; read b; echo "more <$b>"; exit 9'; echo "code $?"`+"\n",
			"READY")
		onAllNodes(t, c, "x")
		k.enter("one\n", "got <one>")
		k.enter(ctrlZ, "Stopped")
		assert.Equal(t, 3, holders(t, c, "x"))
		k.see("code ")           // Of the job that was stopped.
		k.enter("fg\n", "sh -c") // The shell says what it continues.
		k.enter("two\n", "more <two>")
		k.enter(`echo "then $?"`+"\n", "then 9")
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		k := sitDown(t, c)
		// Not a shell: one that is about to start a program may keep the signal until that has ended.
		k.enter(terminalRun + "60s x -- sed -u 's/^/got /'\n")
		k.enter("READY\n", "got READY")
		k.enter(ctrlC, "$ ") // Before that, sed might read what is typed.
		k.enter(`echo "code $?"`+"\n", "code 130")
	})
	// Other programs of a pipeline may read from the terminal, but if the command does, it is its
	// turn: it asks for a password, say.
	t.Run("a question in a pipeline", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(terminalRun+`60s x -- sh -c 'echo RE""ADY; read a; echo "got <$a>"; read b; echo "more <$b>"' | cat; echo code`+
			"\n", "READY")
		k.enter("one\n", "got <one>")
		k.enter(ctrlZ, "Stopped", "code")
		k.enter("fg\n", "sh -c")
		k.enter("two\n", "more <two>")
	})
	// Programs that restore the terminal before they stop, as top does, stop themselves by SIGSTOP.
	t.Run("a command that stops itself", func(t *testing.T) {
		k := sitDown(t, c)
		// It waits without a process of its own: one that Ctrl-Z stops while it starts would be waited for in vain.
		k.enter(terminalRun+`60s s -- bash -c 'exec 3<> <(:); trap "kill -STOP \$\$" TSTP; echo gr""oup $$; while :; do read -t 0.1 -u 3; done'`+"\n",
			"group ")
		group := k.number()
		onAllNodes(t, c, "s")
		k.enter(ctrlZ, "Stopped")
		assert.Equal(t, 3, holders(t, c, "s"))
		k.enter("kill %1\n")
		waitGone(t, group)
		eventually(t, func() bool { return holders(t, c, "s") == 0 }, "the release")
	})
	// It would keep the terminal from the shell, and Ctrl-C would stop at it.
	t.Run("what the command has left behind is stopped", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(terminalRun+`60s s -- sh -c '(echo gr""oup $$; exec sleep 600) & exit 3'`+"\n", "group ")
		group := k.number()
		eventually(t, func() bool { return errors.Is(syscall.Kill(group, 0), syscall.ESRCH) }, "the end of the command itself")
		require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
		k.see("Stopped")
		k.enter("kill %1\n")
		waitGone(t, group)
		eventually(t, func() bool { return holders(t, c, "s") == 0 }, "the release")
	})
	t.Run("where nobody could continue it", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter("exec "+terminalRun+`60s s -- sh -c 'echo gr""oup $$; exec sleep 600'`+"\n", "group ")
		group := k.number()
		require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
		eventually(t, func() bool { return k.foreground() != group }, "redlock in the foreground")
		k.enter(ctrlC)
		waitGone(t, group)
		eventually(t, func() bool { return holders(t, c, "s") == 0 }, "the release")
	})
	t.Run("in a pipeline", func(t *testing.T) {
		k := sitDown(t, c)
		// Without a process of its own, too: bash ignores a Ctrl-C that comes when one has just ended.
		k.enter(terminalRun+`60s x -- bash -c 'exec 3<> <(:); trap "echo BA\"\"CK" CONT; echo RE""ADY; while :; do read -t 0.1 -u 3; done' | cat`+"\n",
			"READY")
		k.enter(ctrlZ, "Stopped")
		k.enter("fg\n", "BACK") // The shell has given up the terminal by now.
		k.enter(ctrlC)
		k.enter(`echo "codes ${PIPESTATUS[*]}"`+"\n", "codes 130")
	})
}

// However a watch is ended, the terminal has its cursor again.
func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	k := sitDown(t, c)
	const watch = "$TOOL watch --interval 100ms "
	k.enter("TERM=xterm "+watch+"x\n", "\x1b[?25l") // The cursor goes,
	k.see("\x1b[H")                                 // and the picture is drawn where the last one was.
	k.see("\x1b[1mx\x1b[0m  \x1b[2mfree\x1b[0m\x1b[K")
	k.see("\x1b[J")
	lock := hold(t, c, "x", redlock.WithOwner("me"))
	k.see("\x1b[32mheld\x1b[0m by \"me\"")
	k.enter(ctrlC, "\x1b[?25h") // The cursor is back.
	k.enter(`echo "code $?"`+"\n", "code 130")
	for _, sig := range []string{"TERM", "HUP"} {
		k.enter(watch+"x & W=$!\n", "\x1b[?25l", "held")
		k.enter("kill -"+sig+" $W\n", "\x1b[?25h")
	}
	require.NoError(t, lock.Unlock(t.Context()))
	k.enter("TERM=xterm "+watch+"--permits 2 jobs others\n",
		"\x1b[1mjobs\x1b[0m  0 of 2 permits held\x1b[K", "  slot 1    \x1b[2mfree", "\x1b[1mothers\x1b[0m  0 of 2 ")
	k.enter(ctrlC, "\x1b[?25h")
	k = sitDown(t, c)
	k.enter("NO_COLOR=1 TERM=xterm "+watch+"x\n", "\x1b[H", "x  free\x1b[K", "\x1b[H")
	k.enter(ctrlC, "\x1b[?25h")
	k.enter("TERM=dumb "+watch+"x\n", "\x1b[H", "x  free\x1b[K", "\x1b[H")
	assert.NotRegexp(t, `\x1b\[[0-9;]*m`, k.screen.String())
}

// A terminal at which nobody does anything for a while.
func TestTerminalLeftAlone(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	t.Run("stopped for too long", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(terminalRun+`10s x -- sh -c 'trap "" TERM; echo gr""oup $$; exec sleep 600'`+"\n", "group ", "\n")
		k.enter(ctrlZ, "Stopped")
		eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the end of the lock")
		k.enter("fg\n", "the lock was lost")
		k.enter(`echo "code $?"`+"\n", "code 79")
	})
	// Nothing can be written to a terminal that is stopped, which must not hold up the end.
	t.Run("held up by Ctrl-S", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(terminalRun+`10s y -- sh -c 'trap "" TERM; echo gr""oup $$; exec sleep 600'`+"\n", "group ")
		group := k.number()
		k.enter(ctrlS)
		for _, node := range c.Nodes {
			require.NoError(t, node.Set("y", "another", time.Minute))
		}
		waitGone(t, group)
		k.enter(ctrlQ, "the lock was lost")
	})
}
