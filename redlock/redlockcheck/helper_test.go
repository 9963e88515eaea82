package redlockcheck

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

var (
	inBubble    = testkit.InBubble
	nodesOf     = testkit.NodesOf
	serverNodes = testkit.ServerNodes
	newPatient  = testkit.NewPatient
	cycle       = testkit.Cycle
	admin       = testkit.Admin
	clients     = testkit.Clients
	setUser     = testkit.SetUser
	secret      = testkit.Secret
)

// check returns what Run says of nodes, and shows it.
func check(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) Report {
	t.Helper()
	report, err := Run(t.Context(), nodes, opts...)
	require.NoError(t, err)
	require.Len(t, report.Nodes, len(nodes))
	t.Log("\n" + report.String())
	return report
}

// checkPatiently does so with a node timeout for real servers.
func checkPatiently(t *testing.T, nodes []redlock.Node, opts ...redlock.Option) Report {
	t.Helper()
	return check(t, nodes, append([]redlock.Option{redlock.WithNodeTimeout(testkit.Patient)}, opts...)...)
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	testkit.Await(t, testkit.Patience, what, done)
}
