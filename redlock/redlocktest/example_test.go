package redlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// This file is the example of the package's documentation. A test of test/repository compares
// them.

type reporter struct {
	locks *redlock.Redlock
	send  func(ctx context.Context) error
}

func (r *reporter) report(ctx context.Context) error {
	return r.locks.Do(ctx, []string{"report"}, 30*time.Second,
		func(ctx context.Context, _ *redlock.Lock) error { return r.send(ctx) })
}

func TestReportIsSentByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := redlocktest.New(t, 3)
		sent := 0
		r := &reporter{locks: cluster.Redlock, send: func(context.Context) error { sent++; return nil }}

		release := cluster.Take("report", time.Minute)
		if err := r.report(t.Context()); !errors.Is(err, redlock.ErrTaken) || sent != 0 {
			t.Errorf("another machine has the lock: sent %d, %v", sent, err)
		}
		release()
		if err := r.report(t.Context()); err != nil || sent != 1 {
			t.Errorf("nobody has the lock: sent %d, %v", sent, err)
		}
		cluster.AssertFree()
	})
}

func TestReportStopsWhenItsLockIsLost(t *testing.T) {
	cluster := redlocktest.New(t, 3)
	r := &reporter{locks: cluster.Redlock, send: func(ctx context.Context) error {
		lock, _ := redlock.FromContext(ctx)
		cluster.Lose(lock)
		<-ctx.Done()
		return ctx.Err()
	}}
	if err := r.report(t.Context()); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("the lock was lost, but report returned %v", err)
	}
}
