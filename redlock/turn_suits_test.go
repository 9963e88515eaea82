package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// A caller that has asked for a fence, or for more room for clocks, must not be passed a lock without.
func TestTurnPassesOnlyWhatWasAskedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		first, next    []redlock.Option
		passed, fenced bool
	}{
		"the same":              {nil, nil, true, false},
		"both fences":           {[]redlock.Option{redlock.WithFencing()}, []redlock.Option{redlock.WithFencing()}, true, true},
		"the next wants one":    {nil, []redlock.Option{redlock.WithFencing()}, false, true},
		"the next wants none":   {[]redlock.Option{redlock.WithFencing()}, nil, false, false},
		"a larger drift factor": {nil, []redlock.Option{redlock.WithDriftFactor(0.05)}, false, false},
		"a smaller one":         {nil, []redlock.Option{redlock.WithDriftFactor(0.005)}, true, false},
	} {
		testkit.RunWithWarm(t, name, 3, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock) {
			// Numbers below a fence are known to be free if somebody has had the resource some time before.
			require.NoError(t, testkit.LockOnAll(t, r, []string{"a"}, time.Second, redlock.WithFencing()).Unlock(t.Context()))
			time.Sleep(time.Millisecond)
			turn := redlock.WithTurn(50 * time.Millisecond)
			l, err := r.Lock(t.Context(), []string{"a"}, time.Second, append(tt.first, turn)...)
			require.NoError(t, err)
			got := make(chan *redlock.Lock)
			go func() {
				l, err := r.Lock(t.Context(), []string{"a"}, time.Second, append(tt.next, turn)...)
				require.NoError(t, err)
				got <- l
			}()
			synctest.Wait()
			require.NoError(t, l.Unlock(t.Context()))
			next := <-got
			require.Equal(t, tt.passed, r.Stats().Passed == 1)
			require.Equal(t, tt.passed, next.Holder() == l.Holder())
			require.Equal(t, tt.fenced, next.Fence() > 0)
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

// A caller that rests until it is passed the lock waits like any other, and the holder hears of it at once.
func TestTurnTellsTheHolderWhoRests(t *testing.T) {
	testkit.WithWarm(t, 3, func(t *testing.T, _ *testcluster.Cluster, r *redlock.Redlock) {
		turn := redlock.WithTurn(50 * time.Millisecond)
		l := testkit.WaitLock(t, r, []string{"a"}, time.Second, turn)
		wanted := l.Wanted()
		go func() { _ = testkit.WaitLock(t, r, []string{"a"}, time.Second, turn).Unlock(t.Context()) }()
		synctest.Wait()
		select {
		case <-wanted:
		default:
			require.Fail(t, "the holder has not heard of it")
		}
		require.NoError(t, l.Unlock(t.Context()))
	})
}
