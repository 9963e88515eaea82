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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed6c881748/redlock/internal/testcluster"
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

func (k *keyboard) typeText(text string) {
	k.t.Helper()
	_, err := k.master.WriteString(text)
	require.NoError(k.t, err)
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
var terminalRun = `$TOOL run --node-timeout 5s --connect-timeout 20s --ttl `

func TestTerminal(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	t.Run("input, Ctrl-Z and fg", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText(terminalRun + `60s x -- sh -c 'echo RE""ADY; read a; echo "got <$a>"; read b; echo "more <$b>"; exit 9'; echo "code $?"` + "\n")
		k.see("READY")
		onAllNodes(t, c, "x")
		k.typeText("one\n")
		k.see("got <one>")
		k.typeText(ctrlZ)
		k.see("Stopped")
		assert.Equal(t, 3, holders(t, c, "x"))
		k.see("code ") // Of the job that was stopped.
		k.typeText("fg\n")
		k.see("sh -c") // The shell says what it continues.
		k.typeText("two\n")
		k.see("more <two>")
		k.typeText(`echo "then $?"` + "\n")
		k.see("then 9")
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		k := sitDown(t, c)
		// Not a shell: one that is about to start a program may keep the signal until that has ended.
		k.typeText(terminalRun + "60s x -- sed -u 's/^/got /'\n")
		k.typeText("READY\n")
		k.see("got READY")
		k.typeText(ctrlC)
		k.see("$ ") // Before that, sed might read what is typed.
		k.typeText(`echo "code $?"` + "\n")
		k.see("code 130")
	})
	// Other programs of a pipeline may read from the terminal, but if the command does, it is its
	// turn: it asks for a password, say.
	for name, redirected := range map[string]string{
		"a question in a pipeline":               `sh -c 'echo RE""ADY; read a; echo "got <$a>"; read b; echo "more <$b>"' | cat`,
		"a question of one that reads elsewhere": `sh -c 'echo RE""ADY; read a </dev/tty; echo "got <$a>"; read b </dev/tty; echo "more <$b>"' </dev/null`,
	} {
		t.Run(name, func(t *testing.T) {
			k := sitDown(t, c)
			k.typeText(terminalRun + `60s x -- ` + redirected + `; echo "code $?"` + "\n")
			k.see("READY")
			k.typeText("one\n")
			k.see("got <one>")
			k.typeText(ctrlZ)
			k.see("Stopped")
			k.see("code ")
			k.typeText("fg\n")
			k.see("sh -c")
			k.typeText("two\n")
			k.see("more <two>")
		})
	}
	// Programs that restore the terminal before they stop, as top does, stop themselves by SIGSTOP.
	t.Run("a command that stops itself", func(t *testing.T) {
		k := sitDown(t, c)
		// It waits without a process of its own: one that Ctrl-Z stops while it starts would be waited for in vain.
		k.typeText(terminalRun + `60s s -- bash -c 'exec 3<> <(:); trap "kill -STOP \$\$" TSTP; echo gr""oup $$; while :; do read -t 0.1 -u 3; done'` + "\n")
		k.see("group ")
		group := k.number()
		onAllNodes(t, c, "s")
		k.typeText(ctrlZ)
		k.see("Stopped")
		assert.Equal(t, 3, holders(t, c, "s"))
		k.typeText("kill %1\n")
		waitGone(t, group)
		eventually(t, func() bool { return holders(t, c, "s") == 0 }, "the release")
	})
	t.Run("top", func(t *testing.T) {
		program(t, "top")
		k := sitDown(t, c)
		k.typeText("export TERM=xterm; stty rows 50 cols 200\n" + terminalRun + "60s t -- top\n")
		k.see("PID")
		onAllNodes(t, c, "t")
		k.typeText(ctrlZ)
		k.see("Stopped")
		assert.Equal(t, 3, holders(t, c, "t"))
		k.typeText("fg\n")
		k.see("PID")
		k.typeText("q")
		k.see("$ ") // Before that, top throws away what is typed.
		k.typeText(`echo "then $?"` + "\n")
		k.see("then 0")
	})
	// SIGTTOU: a job in the background that writes to a terminal that has it wait.
	t.Run("output in the background", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText("stty tostop\n" + terminalRun + `60s y -- sh -c 'echo wri""tten; exit 8' &` + "\n")
		// A quorum: redlock stops at once, and asks no node that was late again.
		eventually(t, func() bool { return holders(t, c, "y") >= 2 }, "the lock")
		k.typeText(`until jobs | grep -q Stopped; do sleep 0.1; done; echo it "sto"pped` + "\n")
		k.see("it stopped")
		k.typeText("fg\n")
		k.see("written")
		k.typeText(`echo "then $?"` + "\n")
		k.see("then 8")
	})
	t.Run("one that is stopped by another process", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText(terminalRun + `60s s -- sh -c 'echo gr""oup $$; read a; echo "got <$a>"'` + "\n")
		k.see("group ")
		require.NoError(t, syscall.Kill(-k.number(), syscall.SIGSTOP))
		k.see("Stopped")
		k.typeText("fg\n")
		k.see("sh -c")
		k.typeText("one\n")
		k.see("got <one>")
	})
	// It would keep the terminal from the shell, and Ctrl-C would stop at it.
	t.Run("what the command has left behind is stopped", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText(terminalRun + `60s s -- sh -c '(echo gr""oup $$; exec sleep 600) & exit 3'` + "\n")
		k.see("group ")
		group := k.number()
		eventually(t, func() bool { return errors.Is(syscall.Kill(group, 0), syscall.ESRCH) }, "the end of the command itself")
		require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
		k.see("Stopped")
		k.typeText("kill %1\n")
		waitGone(t, group)
		eventually(t, func() bool { return holders(t, c, "s") == 0 }, "the release")
	})
	t.Run("where nobody could continue it", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText("exec " + terminalRun + `60s s -- sh -c 'echo gr""oup $$; exec sleep 600'` + "\n")
		k.see("group ")
		group := k.number()
		require.NoError(t, syscall.Kill(-group, syscall.SIGSTOP))
		eventually(t, func() bool { return k.foreground() != group }, "redlock in the foreground")
		k.typeText(ctrlC)
		waitGone(t, group)
		eventually(t, func() bool { return holders(t, c, "s") == 0 }, "the release")
	})
	t.Run("in a pipeline", func(t *testing.T) {
		k := sitDown(t, c)
		// Without a process of its own, too: bash ignores a Ctrl-C that comes when one has just ended.
		k.typeText(terminalRun + `60s x -- bash -c 'exec 3<> <(:); trap "echo BA\"\"CK" CONT; echo RE""ADY; while :; do read -t 0.1 -u 3; done' | cat` + "\n")
		k.see("READY")
		k.typeText(ctrlZ)
		k.see("Stopped")
		k.typeText("fg\n")
		k.see("BACK") // The shell has given up the terminal by now.
		k.typeText(ctrlC)
		k.typeText(`echo "codes ${PIPESTATUS[*]}"` + "\n")
		k.see("codes 130")
	})
}
