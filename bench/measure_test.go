package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	for _, pings := range []int64{0, 3} {
		begin, err := m.begin()
		if err != nil {
			t.Fatal(err)
		}
		for range pings {
			ping(t, cluster.Nodes[0].Addr())
		}
		got, err := m.since(begin)
		if err != nil {
			t.Fatal(err)
		}
		if got.commands != pings || got.reads != pings || got.dials != pings {
			t.Errorf("after %d connections with a command each: %+v", pings, got)
		}
	}
}

// ping makes a connection for one command. It is closed at the end of the test: the server
// would read that.
func ping(t *testing.T, addr string) {
	t.Helper()
	conn, err := redis.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err = conn.Do("PING"); err != nil {
		t.Fatal(err)
	}
}

// TestTakeTurns: every entrant has its turn in each round, and what it has done is counted.
func TestTakeTurns(t *testing.T) {
	c := client{NewWorker: func() worker { return &fakeWorker{} }}
	prepared, cleared := 0, 0
	entrants := []*entrant{
		{name: "a", client: c, work: work{goroutines: 2, length: time.Minute, locks: 10}},
		{
			name: "b", client: c, work: work{goroutines: 1, length: time.Minute, locks: 10}, warm: true,
			before: func() error { prepared++; return nil }, after: func() error { cleared++; return nil },
		},
	}
	r, err := takeTurns(entrants, 3, 2)
	if err != nil {
		t.Fatal(err)
	}
	ops := func(t turn) float64 { return float64(t.ops) }
	failed := func(t turn) float64 { return float64(t.failed) }
	if got := r.of("a", ops); !slices.Equal(got, []float64{20, 20, 20}) {
		t.Errorf("two goroutines, two blocks of 10, half of which succeed: %v", got)
	}
	if got := r.of("b", failed); !slices.Equal(got, []float64{10, 10, 10}) {
		t.Errorf("one goroutine, two blocks of 10, half of which fail: %v", got)
	}
	if prepared != 6 || cleared != 6 {
		t.Errorf("prepared %d times and cleared up %d times, want 6", prepared, cleared)
	}
	if got := r.ratios("a", "b", ops); !slices.Equal(got, []float64{2, 2, 2}) {
		t.Errorf("ratios = %v", got)
	}
	if got := r.ratios("a", "absent", ops); got != nil {
		t.Errorf("ratios with nobody = %v", got)
	}
	if r.turns[0][0].lock.p99 == 0 || r.turns[0][0].timed.lock != nil {
		t.Errorf("latencies: %+v", r.turns[0][0])
	}
}

// TestNoLock: a client that never has a lock is an error, not a row of zeros. The lock that
// it has before the turn does not count.
func TestNoLock(t *testing.T) {
	c := client{NewWorker: func() worker { return &fakeWorker{} }}
	_, err := takeTurns([]*entrant{{name: "a", client: c, work: work{goroutines: 1, length: time.Minute, locks: 1}, warm: true}}, 1, 1)
	if err == nil || !strings.Contains(err.Error(), "a: ") {
		t.Errorf("err = %v", err)
	}
}

func TestAims(t *testing.T) {
	a := newAims()
	a.atMost(1.5, "low", []float64{1, 1.5, 9})
	a.atLeast(2, "high", []float64{1, 1.9, 3})
	a.atLeast(2, "not measured", nil)
	want := [][]string{
		{"low", "at most 1.50", "1.500", "1.000", "9.000", "yes"},
		{"high", "at least 2.00", "1.900", "1.000", "3.000", "no"},
	}
	if got := a.table.Rows(); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAhead: who is served counts as ahead of those who had waited longer, if they are more than so
// many, also of those who are never served.
func TestAhead(t *testing.T) {
	l := &queueing{began: 100}
	for _, p := range []possession{
		{From: 50, Waited: 40, To: 51},    // asked at 10, in turn, but for one that is never served
		{From: 110, Waited: 30, To: 111},  // asked at 80, ahead of 5, 20 and 60
		{From: 120, Waited: 60, To: 121},  // asked at 60, ahead of 5 and 20
		{From: 130, Waited: 110, To: 131}, // asked at 20, ahead of 5
		{From: 200, Waited: 195},          // asked at 5, not served
	} {
		l.note(p)
	}
	for most, want := range []float64{1, 2. / 3, 1. / 3, 0} {
		if got := l.ahead(most); got != want {
			t.Errorf("more than %d: %v, want %v", most, got, want)
		}
	}
	if l.longest != 195 {
		t.Error(l.longest)
	}
}
