package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testkit"
)

func TestOtherSetsAreTold(t *testing.T) {
	five := testcluster.RunEmbedded(t, 5)
	for _, n := range five.Nodes {
		require.NoError(t, n.ShowUptime())
	}
	a, b, d, e := five.Nodes[0], five.Nodes[1], five.Nodes[3], five.Nodes[4]
	c := &testcluster.Cluster{Nodes: five.Nodes[:3]}
	_, _, errOut := execTool(t, c, append([]string{"status", "x"}, slow...)...)
	require.Empty(t, errOut)

	testkit.NoteSet(t, a, "web", a, d, e)
	before, _, err := a.Get(testkit.NotesKey)
	require.NoError(t, err)
	for _, args := range [][]string{{"status", "x"}, {"status", "--permits", "2", "x"}, {"list"}} {
		code, out, errOut := execTool(t, c, append(args, slow...)...)
		assert.Contains(t, errOut, "redlock: web, a client of "+nameOf(a)+" with 3 nodes, has ", args)
		assert.Contains(t, errOut, "both can get a lock at once", args)
		assert.LessOrEqual(t, code, exitNo, out)
		_, _, errOut = execTool(t, c, append(append(args, "--set-name", "other"), slow...)...)
		assert.NotContains(t, errOut, "a client of", args)
	}
	after, _, err := a.Get(testkit.NotesKey)
	require.NoError(t, err)
	assert.Equal(t, before, after, "the tool leaves no note")
	_, _, err = b.Get(testkit.NotesKey)
	require.NoError(t, err)

	code, out, _ := execTool(t, c, append([]string{"check"}, slow...)...)
	assert.Equal(t, exitUnfit, code)
	assert.Contains(t, out, "unfit sets: web, a client of ")
}

// nameOf is a node's name as the tool has it.
func nameOf(n *testcluster.Node) string { return n.Addr() }
