package redlock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

func TestFenceModelNodeIsTheScriptsOnAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("the same as on a node in memory, on a server")
	}
	t.Parallel()
	c := testcluster.RunServers(t, 1)
	for resources := 1; resources <= modelResources; resources++ {
		require.NoError(t, c.Nodes[0].Flush())
		newFenceTwin(t, c.Nodes[0], resources).run(3000)
	}
}
