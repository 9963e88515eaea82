package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
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
	for name, redirected := range map[string]string{
		"a question in a pipeline":               `sh -c 'echo RE""ADY; read a; echo "got <$a>"; read b; echo "more <$b>"' | cat`,
		"a question of one that reads elsewhere": `sh -c 'echo RE""ADY; read a </dev/tty; echo "got <$a>"; read b </dev/tty; echo "more <$b>"' </dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			k := sitDown(t, c)
			k.enter(terminalRun+`60s x -- `+redirected+`; echo "code $?"`+"\n", "READY")
			k.enter("one\n", "got <one>")
			k.enter(ctrlZ, "Stopped", "code ")
			k.enter("fg\n", "sh -c")
			k.enter("two\n", "more <two>")
		})
	}
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
	t.Run("top", func(t *testing.T) {
		program(t, "top")
		k := sitDown(t, c)
		k.enter("export TERM=xterm; stty rows 50 cols 200\n"+terminalRun+"60s t -- top\n", "PID")
		onAllNodes(t, c, "t")
		k.enter(ctrlZ, "Stopped")
		assert.Equal(t, 3, holders(t, c, "t"))
		k.enter("fg\n", "PID")
		k.enter("q", "$ ") // Before that, top throws away what is typed.
		k.enter(`echo "then $?"`+"\n", "then 0")
	})
	// SIGTTOU: a job in the background that writes to a terminal that has it wait.
	t.Run("output in the background", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter("stty tostop\n" + terminalRun + `60s y -- sh -c 'echo wri""tten; exit 8' &` + "\n")
		// A quorum: redlock stops at once, and asks no node that was late again.
		eventually(t, func() bool { return holders(t, c, "y") >= 2 }, "the lock")
		k.enter(`until jobs | grep -q Stopped; do sleep 0.1; done; echo it "sto"pped`+"\n", "it stopped")
		k.enter("fg\n", "written")
		k.enter(`echo "then $?"`+"\n", "then 8")
	})
	t.Run("one that is stopped by another process", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(terminalRun+`60s s -- sh -c 'echo gr""oup $$; read a; echo "got <$a>"'`+"\n", "group ")
		require.NoError(t, syscall.Kill(-k.number(), syscall.SIGSTOP))
		k.see("Stopped")
		k.enter("fg\n", "sh -c")
		k.enter("one\n", "got <one>")
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

func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	const watch = `$TOOL watch --interval 100ms x` + "\n"
	t.Run("a picture in colour", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(`TERM=xterm `+watch, "\x1b[?25l") // The cursor goes,
		k.see("\x1b[H")                           // and the picture is drawn where the last one was.
		k.see("\x1b[1mx\x1b[0m  \x1b[2mfree\x1b[0m\x1b[K")
		k.see("\x1b[J")
		lock := hold(t, c, "x", redlock.WithOwner("me"))
		k.see("\x1b[32mheld\x1b[0m by \"me\"")
		require.NoError(t, lock.Unlock(t.Context()))
		k.see("\x1b[2mfree")
		k.enter(ctrlC, "\x1b[?25h") // The cursor is back.
		k.enter(`echo "code $?"`+"\n", "code 130")
	})
	for _, setting := range []string{"NO_COLOR=1 TERM=xterm ", "TERM=dumb "} {
		t.Run("without colour: "+setting, func(t *testing.T) {
			k := sitDown(t, c)
			k.enter(setting+watch, "\x1b[H", "x  free\x1b[K", "\x1b[H")
			assert.NotRegexp(t, `\x1b\[[0-9;]*m`, k.screen.String())
			k.enter(ctrlC, "\x1b[?25h")
		})
	}
	t.Run("permits", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter("TERM=xterm "+strings.TrimSuffix(watch, " x\n")+" --permits 2 jobs others\n",
			"\x1b[1mjobs\x1b[0m  0 of 2 permits held\x1b[K", "  slot 1  \x1b[2mfree", "\x1b[1mothers\x1b[0m  0 of 2 permits held\x1b[K")
		lock := hold(t, c, "jobs#1", redlock.WithOwner("me"))
		k.see("jobs\x1b[0m  1 of 2 permits held")
		k.see("  slot 1  \x1b[32mheld\x1b[0m by \"me\"")
		require.NoError(t, lock.Unlock(t.Context()))
		k.enter(ctrlC)
	})
	t.Run("an empty NO_COLOR", func(t *testing.T) {
		k := sitDown(t, c)
		k.enter(`NO_COLOR= TERM=xterm `+watch, "\x1b[2mfree")
		k.enter(ctrlC)
	})
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
		file := filepath.Join(t.TempDir(), "group")
		k.enter(terminalRun+`10s y -- sh -c 'trap "" TERM; echo $$ >`+file+`; echo RE""ADY; sleep 600'`+"\n",
			"READY")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		group, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		k.enter(ctrlS)
		for _, node := range c.Nodes {
			require.NoError(t, node.Set("y", "another", time.Minute))
		}
		waitGone(t, group)
		k.enter(ctrlQ, "the lock was lost")
	})
}

// However a watch is ended, the terminal has its cursor again.
func TestTerminalWatchIsEnded(t *testing.T) {
	t.Parallel()
	k := sitDown(t, testcluster.RunServers(t, 3))
	for _, sig := range []string{"TERM", "HUP", "INT"} {
		k.enter("\"$TOOL\" watch x & W=$!\n", "\x1b[?25l", "free")
		k.enter("kill -"+sig+" $W\n", "\x1b[?25h")
	}
}

// lines types a command of the tool, and returns what it has written to the terminal.
func (k *keyboard) lines(command string) []string {
	k.t.Helper()
	k.enter(`echo be""gin; `+command+`; echo e""nd`+"\n", "begin\r\n")
	from := k.seen
	k.see("end\r\n")
	text := strings.TrimSuffix(k.screen.String()[from:k.seen], "end\r\n")
	return strings.Split(strings.TrimSuffix(text, "\r\n"), "\r\n")
}

// What is said fits into the terminal, breaks between words, and has its columns one below the other.
func TestTerminalWidth(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	names := []string{"short", strings.Repeat("reports/", 10) + "nightly", strings.Repeat("\u9501", 60)}
	for _, node := range c.Nodes {
		for _, name := range names {
			require.NoError(t, node.Set(name, tokens.WithLabel(tokens.New(), "a-machine-with-a-long-name.example.com/123456"), time.Minute))
		}
	}
	k := sitDown(t, c)
	for _, width := range []string{"60", "80", "120"} {
		most := map[string]int{"60": 60, "80": 80, "120": 120}[width]
		k.lines("stty cols " + width)
		list := k.lines("$TOOL list")
		require.Len(t, list, 1+len(names))
		for _, line := range list {
			assert.LessOrEqual(t, cells(line), most, line)
			before, _, found := strings.Cut(line, "partial")
			if strings.HasPrefix(line, "RESOURCE") {
				before, _, found = strings.Cut(line, "STATE")
			}
			require.True(t, found, line)
			assert.Equal(t, cells(list[0][:strings.Index(list[0], "STATE")]), cells(before), line)
		}
		assert.Equal(t, most >= 100, strings.Contains(list[0], "FENCE"))
		for _, command := range []string{"$TOOL help", "$TOOL help run", "$TOOL status short free", "$TOOL status --permits 2 x", "$TOOL check"} {
			text := strings.Join(k.lines(command), "\n")
			text, _, _ = strings.Cut(text, "\nEXAMPLES\n")
			for line := range strings.SplitSeq(text, "\n") {
				assert.LessOrEqual(t, cells(line), most, "%s: %s", command, line)
			}
		}
	}
	k.lines("stty cols 60")
	k.enter("$TOOL watch --interval 100ms short\n", "\x1b[H")
	from := k.seen
	k.see("\x1b[J")
	for line := range strings.SplitSeq(k.screen.String()[from:k.seen], "\x1b[K") {
		assert.LessOrEqual(t, len(strings.Trim(line, "\r\n\x1b[J")), 60, line)
	}
	k.enter(ctrlC, "$ ")
	assert.Contains(t, strings.Join(k.lines("$TOOL list | cat"), "\n"), names[1], "nothing is cut")
}
