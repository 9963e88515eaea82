package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A fakeWorker fails every other lock.
type fakeWorker struct{ calls int }

func (w *fakeWorker) Try(context.Context, string) error {
	if w.calls++; w.calls%2 == 0 {
		return errors.New("taken")
	}
	return nil
}

func (*fakeWorker) Unlock(context.Context) error { return nil }

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

// TestTakeTurns: every client has its turns in each round, and what it has done is counted. Half of the locks fail.
func TestTakeTurns(t *testing.T) {
	c := client{NewWorker: func() worker { return &fakeWorker{} }}
	s, begun := settings{rounds: 3, blocks: 2, blockSize: 10}, 0
	r, err := takeTurns(s, []client{c, c}, nil, 1, func() error { begun++; return nil })
	require.NoError(t, err)
	require.Equal(t, 1, begun)
	want := []float64{10, 10, 10}
	ops := func(t turn) float64 { return float64(t.ops) }
	for _, turns := range r.turns {
		require.Equal(t, want, each(turns, ops))
		require.Equal(t, want, each(turns, func(t turn) float64 { return float64(t.failed) }))
		require.NotZero(t, turns[0].lock.p99)
		require.Nil(t, turns[0].timed.lock)
	}
	require.Equal(t, []float64{1, 1, 1}, r.ratios(0, 1, ops))
}

// TestNoLock: a client that never has a lock is an error, not a row of zeros. The locks that
// it has before the turn do not count.
func TestNoLock(t *testing.T) {
	c := client{Name: "a", NewWorker: func() worker { return &fakeWorker{} }}
	_, err := takeTurns(settings{rounds: 1, blocks: 1, blockSize: 1}, []client{c}, nil, 1, nil)
	require.ErrorContains(t, err, "a: no lock")
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
