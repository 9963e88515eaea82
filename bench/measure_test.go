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

// TestTakeTurns: every client has its turns in each round, and what it has done is counted. Half of the locks fail.
func TestTakeTurns(t *testing.T) {
	c := client{NewWorker: func() worker { return &fakeWorker{} }}
	s := settings{rounds: 3, blocks: 2, blockSize: 10, time: time.Minute}
	begun := 0
	r, err := takeTurns(s, []client{c, c}, nil, 1, func() error { begun++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{10, 10, 10}
	for i := range r.turns {
		ops := each(r.turns[i], func(t turn) float64 { return float64(t.ops) })
		failed := each(r.turns[i], func(t turn) float64 { return float64(t.failed) })
		if !slices.Equal(ops, want) || !slices.Equal(failed, want) {
			t.Errorf("two blocks of 10: %v, and %v have failed", ops, failed)
		}
	}
	if got := r.ratios(0, 1, func(t turn) float64 { return float64(t.ops) }); !slices.Equal(got, []float64{1, 1, 1}) {
		t.Errorf("ratios = %v", got)
	}
	if begun != 1 || r.turns[0][0].lock.p99 == 0 || r.turns[0][0].timed.lock != nil {
		t.Errorf("begun %d times, latencies: %+v", begun, r.turns[0][0])
	}
}

// TestNoLock: a client that never has a lock is an error, not a row of zeros. The locks that
// it has before the turn do not count.
func TestNoLock(t *testing.T) {
	c := client{Name: "a", NewWorker: func() worker { return &fakeWorker{} }}
	_, err := takeTurns(settings{rounds: 1, blocks: 1, blockSize: 1}, []client{c}, nil, 1, nil)
	if err == nil || !strings.Contains(err.Error(), "a: ") {
		t.Errorf("err = %v", err)
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
