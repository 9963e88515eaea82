package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

func TestWatchOnTerminal(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	const watch = `$TOOL watch --node-timeout 5s --connect-timeout 20s --interval 100ms x` + "\n"
	t.Run("a picture in colour", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText(`TERM=xterm ` + watch)
		k.see("\x1b[?25l") // The cursor goes,
		k.see("\x1b[H")    // and the picture is drawn where the last one was.
		k.see("\x1b[1mx\x1b[0m  \x1b[2mfree\x1b[0m\x1b[K")
		k.see("\x1b[J")
		lock := hold(t, c, "x", redlock.WithOwner("me"))
		k.see("\x1b[32mheld\x1b[0m by \"me\"")
		require.NoError(t, lock.Unlock(t.Context()))
		k.see("\x1b[2mfree")
		k.typeText(ctrlC)
		k.see("\x1b[?25h") // The cursor is back.
		k.typeText(`echo "code $?"` + "\n")
		k.see("code 130")
	})
	for _, setting := range []string{"NO_COLOR=1 TERM=xterm ", "TERM=dumb "} {
		t.Run("without colour: "+setting, func(t *testing.T) {
			k := sitDown(t, c)
			k.typeText(setting + watch)
			k.see("\x1b[H")
			k.see("x  free\x1b[K")
			k.see("\x1b[H")
			assert.NotRegexp(t, `\x1b\[[0-9;]*m`, k.screen.String())
			k.typeText(ctrlC)
			k.see("\x1b[?25h")
		})
	}
	t.Run("permits", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText("TERM=xterm " + strings.TrimSuffix(watch, " x\n") + " --permits 2 jobs others\n")
		k.see("\x1b[1mjobs\x1b[0m  0 of 2 permits held\x1b[K")
		k.see("  slot 1  \x1b[2mfree")
		k.see("\x1b[1mothers\x1b[0m  0 of 2 permits held\x1b[K")
		lock := hold(t, c, "jobs#1", redlock.WithOwner("me"))
		k.see("jobs\x1b[0m  1 of 2 permits held")
		k.see("  slot 1  \x1b[32mheld\x1b[0m by \"me\"")
		require.NoError(t, lock.Unlock(t.Context()))
		k.typeText(ctrlC)
	})
	t.Run("an empty NO_COLOR", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText(`NO_COLOR= TERM=xterm ` + watch)
		k.see("\x1b[2mfree")
		k.typeText(ctrlC)
	})
}

// A terminal at which nobody does anything for a while.
func TestTerminalLeftAlone(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	t.Run("stopped for too long", func(t *testing.T) {
		k := sitDown(t, c)
		k.typeText(terminalRun + `10s x -- sh -c 'trap "" TERM; echo gr""oup $$; exec sleep 600'` + "\n")
		k.see("group ")
		k.see("\n")
		k.typeText(ctrlZ)
		k.see("Stopped")
		eventually(t, func() bool { return holders(t, c, "x") == 0 }, "the end of the lock")
		k.typeText("fg\n")
		k.see("the lock was lost")
		k.typeText(`echo "code $?"` + "\n")
		k.see("code 79")
	})
	// Nothing can be written to a terminal that is stopped, which must not hold up the end.
	t.Run("held up by Ctrl-S", func(t *testing.T) {
		k := sitDown(t, c)
		file := filepath.Join(t.TempDir(), "group")
		k.typeText(terminalRun + `10s y -- sh -c 'trap "" TERM; echo $$ >` + file + `; echo RE""ADY; sleep 600'` + "\n")
		k.see("READY")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		group, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		k.typeText(ctrlS)
		for _, node := range c.Nodes {
			require.NoError(t, node.Set("y", "another", time.Minute))
		}
		waitGone(t, group)
		k.typeText(ctrlQ)
		k.see("the lock was lost")
	})
}

// However a watch is ended, the terminal has its cursor again.
func TestTerminalWatchIsEnded(t *testing.T) {
	t.Parallel()
	k := sitDown(t, testcluster.RunServers(t, 3))
	for _, sig := range []string{"TERM", "HUP", "INT"} {
		k.typeText("\"$TOOL\" watch x & W=$!\n")
		k.see("\x1b[?25l")
		k.see("free")
		k.typeText("kill -" + sig + " $W\n")
		k.see("\x1b[?25h")
	}
}
