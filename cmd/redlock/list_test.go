package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"

	"github.com/seed6c881748/redlock/redlock/stored"
)

func TestMaxTokenBytes(t *testing.T) {
	longest := tokens.WithLabel(tokens.New(), strings.Repeat("x", tokens.MaxLabel))
	assert.Len(t, longest, stored.MaxToken)
}

// What a node is asked to do at once is bounded, however much there is on it.
func TestListIsGentle(t *testing.T) {
	c := testcluster.RunEmbedded(t, 3)
	const locks = 500
	for i := range locks {
		key := "k" + strings.Repeat("n", i%50) + tokens.New()
		require.NoError(t, c.Nodes[0].Set(key, tokens.New(), 0))
	}
	most := map[string]int{}
	require.NoError(t, c.Nodes[0].OnCommand(func(cmd string, args []string) {
		most[cmd] = max(most[cmd], len(args))
		if cmd == "SCAN" {
			assert.Contains(t, strings.Join(args, " "), "COUNT "+strconv.Itoa(scanCount))
		}
	}))
	code, out, errOut := execTool(t, c, append([]string{"list", "--json"}, slow...)...)
	assert.Equal(t, exitOK, code, errOut)
	assert.Equal(t, locks, strings.Count(out, "\n"))
	assert.LessOrEqual(t, most["EVAL"], scanCount+3)
	for cmd := range most {
		assert.Contains(t, []string{"SCAN", "EVAL", "PING"}, cmd)
	}
}

// Nothing at all could be a failure. A script that reads the list finds it empty.
func TestListSaysThatThereIsNothing(t *testing.T) {
	c := testcluster.RunEmbedded(t, 3)
	list := func(args ...string) (out, errOut string) {
		code, out, errOut := execTool(t, c, append([]string{"list"}, append(slow, args...)...)...)
		assert.Equal(t, exitOK, code, errOut)
		return out, errOut
	}
	for want, args := range map[string][]string{
		"redlock: no locks\n":                                        nil,
		"redlock: no locks that match x*\n":                          {"x*"},
		"redlock: no locks that match x* with the prefix \"a\\n\"\n": {"x*", "--prefix", "a\n"},
		"": {"--json"},
	} {
		out, errOut := list(args...)
		assert.Empty(t, out)
		assert.Equal(t, want, errOut)
	}
	for _, node := range c.Nodes {
		require.NoError(t, node.Set("x", tokens.New(), time.Minute))
	}
	out, errOut := list()
	assert.Contains(t, out, "\nx  ")
	assert.Empty(t, errOut)
}

func TestNearest(t *testing.T) {
	known := []string{"nodes", "node-timeout", "json", "wait", "kill-after"}
	for word, want := range map[string]string{
		"node": "nodes", "nodse": "nodes", "kil-after": "kill-after", "wiat": "wait", "WAIT": "wait", "zzzzz": "", "node-": "node-timeout", "": "",
	} {
		assert.Equal(t, want, nearest(word, known), "%q", word)
	}
}
