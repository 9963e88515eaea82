package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A pane is a shell in a tmux of the test's own.
type pane struct {
	t    *testing.T
	path string // of tmux
	sock string
}

// openPane starts a shell in which $TOOL is the tool.
func openPane(t *testing.T, c *testcluster.Cluster) *pane {
	t.Helper()
	path, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed; TestTerminal does the same without it")
	}
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "tmux") //nolint:usetesting // See above.
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &pane{t: t, path: path, sock: filepath.Join(dir, "s")}
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := p.command("-f", "/dev/null", "new-session", "-d", "-x", "250", "-y", "50", `exec env PS1="pane> " bash --norc --noprofile -i`)
	cmd.Env = append(os.Environ(), asTool+"=1", "REDLOCK_NODES="+strings.Join(c.Addrs(), ","), "TOOL="+self, "TMUX=", "TERM=xterm")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the pane:\n%s", p.text())
		}
		_ = p.command("kill-server").Run()
	})
	p.typeLine(`echo rea"dy" to type`)
	p.see("ready to type")
	return p
}

func (p *pane) command(args ...string) *exec.Cmd {
	return exec.Command(p.path, append([]string{"-S", p.sock}, args...)...)
}

// typeLine types a line.
func (p *pane) typeLine(line string) {
	p.t.Helper()
	require.NoError(p.t, p.command("send-keys", "-l", "--", line).Run())
	p.press("Enter")
}

// press presses a key.
func (p *pane) press(key string) {
	p.t.Helper()
	require.NoError(p.t, p.command("send-keys", key).Run())
}

// text is what is to be seen.
func (p *pane) text() string {
	text, _ := p.command("capture-pane", "-p", "-J").Output()
	return string(text)
}

// see waits for a text.
func (p *pane) see(text string) {
	p.t.Helper()
	eventually(p.t, func() bool {
		time.Sleep(20 * time.Millisecond) // Each look is a process.
		return strings.Contains(p.text(), text)
	}, "%q in the pane", text)
}

func TestTmux(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	t.Run("Ctrl-Z and fg", func(t *testing.T) {
		p := openPane(t, c)
		p.typeLine(terminalRun + `60s x -- sh -c 'echo RE""ADY; read a; echo "got <$a>"; read b; echo "more <$b>"; exit 9'; echo "code $?"`)
		p.see("READY")
		p.typeLine("one")
		p.see("got <one>")
		p.press("C-z")
		p.see("Stopped")
		p.typeLine("fg")
		eventually(t, func() bool { return strings.Count(p.text(), "sh -c") >= 3 }, "what the shell continues")
		p.typeLine("two")
		p.see("more <two>")
		p.typeLine(`echo "then $?"`)
		p.see("then 9")
	})
	top := func(t *testing.T) {
		t.Helper()
		if _, err := exec.LookPath("top"); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	// top catches the terminal's signals, restores the terminal, and stops itself by SIGSTOP.
	t.Run("top at Ctrl-Z", func(t *testing.T) {
		top(t)
		p := openPane(t, c)
		p.typeLine(terminalRun + `60s t -- top`)
		p.see("PID")
		onAllNodes(t, c, "t")
		p.press("C-z")
		p.see("Stopped")
		require.Equal(t, 3, holders(t, c, "t"))
		p.typeLine("clear")
		eventually(t, func() bool { return !strings.Contains(p.text(), "PID") }, "an empty pane")
		p.typeLine("fg")
		p.see("PID")
		p.press("q")
		// top throws away what was typed before its end.
		eventually(t, func() bool { return strings.HasSuffix(strings.TrimSpace(p.text()), "pane>") }, "the prompt")
		p.typeLine(`echo "then $?"`)
		p.see("then 0")
	})
	t.Run("top in a pipeline", func(t *testing.T) {
		top(t)
		p := openPane(t, c)
		p.typeLine(terminalRun + `60s u -- top | head -n 3; echo "is o""ver"`)
		p.see("is over")
		eventually(t, func() bool { return holders(t, c, "u") == 0 }, "the release")
	})
	// SIGTTOU: a job in the background that writes to a terminal that has it wait.
	t.Run("output in the background", func(t *testing.T) {
		p := openPane(t, c)
		p.typeLine("stty tostop")
		p.typeLine(terminalRun + `60s y -- sh -c 'echo wri""tten; exit 8' &`)
		// A quorum: redlock stops at once, and asks no node that was late again.
		eventually(t, func() bool { return holders(t, c, "y") >= 2 }, "the lock")
		p.typeLine(`until jobs | grep -q Stopped; do sleep 0.1; done; echo it "sto"pped`)
		p.see("it stopped")
		p.typeLine("fg")
		p.see("written")
		p.typeLine(`echo "then $?"`)
		p.see("then 8")
	})
}
