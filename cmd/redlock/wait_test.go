//go:build unix

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// Whoever sits at a terminal is told after a second for whom redlock waits.
func TestRunTellsThatItWaits(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	hold(t, c, "n2", redlock.WithOwner("vm/123"))
	t.Run("for one", func(t *testing.T) {
		t.Parallel()
		p := start(t, c, runArgs("n2", "--", "true")...)
		eventually(t, func() bool { return strings.Contains(p.errOut.String(), "held by") }, "a word")
		assert.Regexp(t, `^(redlock: waiting for n2\n)?redlock: waiting for n2, held by vm/123 for another [0-9ms.]+`+"\n$", p.errOut.String())
	})
	t.Run("for one of several, in JSON", func(t *testing.T) {
		t.Parallel()
		p := start(t, c, runArgs("--json", "n2", "n1", "--", "true")...)
		eventually(t, func() bool { return strings.Contains(p.errOut.String(), "held by") }, "a word")
		lines := strings.Split(strings.TrimSpace(p.errOut.String()), "\n")
		var note struct{ Note string }
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &note))
		assert.Contains(t, note.Note, "waiting for n2, n1, one of them held by vm/123 for another ")
	})
	t.Run("quietly", func(t *testing.T) {
		t.Parallel()
		p := start(t, c, runArgs("--quiet", "--wait", "10s", "n2", "--", "true")...)
		assert.Equal(t, exitTaken, p.wait())
		assert.Empty(t, p.errOut.String())
	})
}

func TestRunTellsThatItWaitsForNodes(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	require.NoError(t, c.Nodes[0].Stop())
	require.NoError(t, c.Nodes[1].Stop())
	p := start(t, c, runArgs("x", "--", "true")...)
	eventually(t, func() bool { return strings.Contains(p.errOut.String(), "quorum") }, "a word")
	assert.Contains(t, p.errOut.String(), "redlock: waiting: no quorum for x: 2 of 3 nodes failed: ")
}

// A redlock run that waits for one around it would wait for ever, however many are in between.
func TestRunWaitsForItself(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	for name, tt := range map[string]struct {
		command []string
		want    string
	}{
		"within itself": {[]string{"n1", "--", "sh", "-c", `REDLOCK_TEST_AS_TOOL=1 exec "$0" run n1 -- echo ran`}, "holds what it asks for: n1 is held by "},
		"quietly":       {[]string{"n1", "--", "sh", "-c", `REDLOCK_TEST_AS_TOOL=1 exec "$0" run --quiet --wait 0 n1 -- echo ran`}, "holds what it asks for: n1 is held by "},
		"farther away": {[]string{"n1", "--", "sh", "-c", `
			REDLOCK_TEST_AS_TOOL=1 exec "$0" run n2 -- sh -c 'REDLOCK_TEST_AS_TOOL=1 exec "$0" run n3 n1 -- echo ran' "$0"`}, "holds what it asks for: one of n1, n3 is held by "},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, c, append(runArgs(tt.command...), "")...)
			cmd.Args[len(cmd.Args)-1] = cmd.Path
			cmd.Env = append(cmd.Env, "REDLOCK_NODE_TIMEOUT=5s", "REDLOCK_CONNECT_TIMEOUT=20s") // Of those within, too.
			p := startCommand(t, cmd)
			assert.Equal(t, exitTaken, p.wait())
			assert.Contains(t, p.errOut.String(), tt.want)
			assert.Empty(t, p.out.String())
		})
	}
	t.Run("with another prefix", func(t *testing.T) {
		cmd := command(t, c, append(runArgs("n1", "--", "sh", "-c", `REDLOCK_TEST_AS_TOOL=1 exec "$0" run --prefix other: n1 -- echo ran`), "")...)
		cmd.Args[len(cmd.Args)-1] = cmd.Path
		p := startCommand(t, cmd)
		assert.Equal(t, 0, p.wait(), "%s", p.errOut)
		assert.Equal(t, "ran\n", p.out.String())
	})
}
