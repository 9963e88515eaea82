package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// TestMeter: a meter counts what others ask of the servers, and not what it asks itself.
func TestMeter(t *testing.T) {
	cluster := testcluster.RunServers(t, 2)
	m, err := newMeter(cluster.Nodes)
	require.NoError(t, err)
	t.Cleanup(m.close)
	for _, pings := range []int64{0, 3} {
		begin, err := m.begin()
		require.NoError(t, err)
		for range pings { // A connection is not closed before the end of the test: the server would read that.
			conn, dialErr := cluster.Nodes[0].Conn(t.Context())
			require.NoError(t, dialErr)
			t.Cleanup(func() { _ = conn.Close() })
			_, dialErr = conn.Do("PING")
			require.NoError(t, dialErr)
		}
		got, err := m.since(begin)
		require.NoError(t, err)
		got.cpu = 0
		require.Equal(t, load{commands: pings, reads: pings, dials: pings}, got, "connections with a command each")
	}
}

// TestAhead: who is served counts as ahead of those who had waited longer, if they are more than so many, also of
// those who are never served. What came before the warm-up was over does not count.
func TestAhead(t *testing.T) {
	turns := []possession{
		{from: 50, waited: 40, to: 51},    // asked at 10, in turn, but for one that is never served
		{from: 110, waited: 30, to: 111},  // asked at 80, ahead of 5, 20 and 60
		{from: 120, waited: 60, to: 121},  // asked at 60, ahead of 5 and 20
		{from: 130, waited: 110, to: 131}, // asked at 20, ahead of 5
		{from: 200, waited: 195},          // asked at 5, not served
	}
	for most, want := range []float64{1, 2. / 3, 1. / 3, 0} {
		require.InDelta(t, want, ahead(turns, most, 100), 0, "more than %d", most)
	}
}
