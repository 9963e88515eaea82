package redlock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/testkit"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func TestStatsCountWhatIsHeldAndWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1))
		var locks []*redlock.Lock
		for i := range 200 {
			l, err := r.TryLock(t.Context(), []string{string(rune('A' + i))}, time.Duration(i+1)*time.Second)
			require.NoError(t, err)
			locks = append(locks, l)
		}
		assert.Equal(t, 200, r.Stats().Held)
		time.Sleep(50 * time.Second)
		assert.Equal(t, 150, r.Stats().Held)
		require.NoError(t, locks[199].Unlock(t.Context()))
		assert.Equal(t, 149, r.Stats().Held)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := r.Lock(ctx, locks[198].Resources(), ttl)
			done <- err
		}()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		s := r.Stats()
		assert.Equal(t, 1, s.Waiting)
		assert.Equal(t, int64(200), s.Acquired)
		assert.Equal(t, int64(1), s.Unlocked)
		assert.Equal(t, int64(2), s.Taken, "it has looked again, to get in line")
		for i, n := range s.Nodes {
			assert.Equal(t, c.Nodes[i].Name(), n.Node)
			assert.True(t, n.Up)
			assert.Zero(t, n.Backlog)
		}
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		time.Sleep(200 * time.Second)
		assert.Zero(t, r.Stats().Held)
		for i := range rounds(1000, 400) { // Dropped without Unlock: the registry does not grow for ever.
			_, err := r.TryLock(t.Context(), []string{string(rune('A' + i))}, 10*time.Millisecond)
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		assert.Less(t, redlock.Remembered(r), 200)
	})
}

func TestStatsShowWaiting(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var mu sync.Mutex
		var events []redlock.Event
		r := newRedlock(t, c, redlock.WithHook(func(_ context.Context, e redlock.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == redlock.EventWaiting {
				events = append(events, e)
			}
		}))
		held := lockElsewhere(t, c, "x", time.Hour)
		opts := []redlock.Option{redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0)}
		first := startLock(t, r, t.Context(), []string{"x"}, opts...)
		second := startLock(t, r, t.Context(), []string{"x"}, opts...)
		time.Sleep(2 * time.Second)
		assert.Equal(t, 2, r.Stats().Waiting)
		require.NoError(t, held.Unlock(t.Context()))
		l := first.got(t)
		assert.Equal(t, 4, l.Attempts(), "the first, two timed ones, and the one that the release set off")
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		var lines []string
		for _, e := range events {
			lines = append(lines, fmt.Sprintf("%s %v %d: %d, %v, %v", e.Op, e.Resources, e.Position, e.Attempt, e.Took.Round(time.Millisecond), errors.Is(e.Err, redlock.ErrTaken)))
		}
		assert.Equal(t, []string{
			"lock [x] 1: 1, 0s, true",
			"lock [x] 1: 1, 0s, true",
			"lock [x] 2: 0, 0s, false",
			"lock [x] 1: 2, 1s, true",
			"lock [x] 2: 1, 1s, true",
			"lock [x] 1: 3, 2s, true",
			"lock [x] 2: 2, 2s, true",
			"lock [x] 1: 2, 2.05s, true",
		}, lines)
	})
}

// The registry of held locks and the locks each have a mutex.
func TestStatsWhileLocksComeAndGo(t *testing.T) {
	c := testcluster.RunEmbedded(t, 1)
	r := newRedlock(t, c, redlock.WithNodeTimeout(patient))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				l, err := r.TryLock(context.Background(), []string{string(rune('A'+g)) + string(rune('A'+i))}, ttl)
				if assert.NoError(t, err) && i%2 == 0 {
					assert.NoError(t, l.Unlock(context.Background())) //nolint:testifylint // Not the test's goroutine.
				}
				_ = r.Stats()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, 400, r.Stats().Held)
}

func TestStatsMarshalToJSON(t *testing.T) {
	s := redlock.Stats{Held: 3, Nodes: []redlock.NodeStats{{Node: "n1", Up: true, Abstains: redlock.ErrQuarantined}, {Node: "n2", Err: fmt.Errorf("not connected: %w", assert.AnError), PendingReleases: 2}}}
	b, err := json.Marshal(s)
	require.NoError(t, err)
	var back struct {
		Held  int
		Nodes []struct {
			Node, Err, Abstains string
			Up                  bool
			PendingReleases     int
		}
	}
	require.NoError(t, json.Unmarshal(b, &back))
	assert.Equal(t, 3, back.Held)
	assert.Equal(t, "n1", back.Nodes[0].Node)
	assert.True(t, back.Nodes[0].Up)
	assert.Empty(t, back.Nodes[0].Err)
	assert.Equal(t, redlock.ErrQuarantined.Error(), back.Nodes[0].Abstains)
	assert.Empty(t, back.Nodes[1].Abstains)
	assert.Equal(t, "not connected: "+assert.AnError.Error(), back.Nodes[1].Err)
	assert.Equal(t, 2, back.Nodes[1].PendingReleases)
}

func TestStatsListHeldLocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithOwner("me"))
		assert.Empty(t, r.HeldLocks())
		start := time.Now()
		kept, err := r.Lock(t.Context(), []string{"b", "a"}, 9*time.Second, redlock.WithFencing())
		require.NoError(t, err)
		ctx := kept.KeepAlive(t.Context())
		time.Sleep(time.Second)
		_, err = r.Lock(t.Context(), []string{"c"}, 4*time.Second, redlock.WithOwner(""))
		require.NoError(t, err)
		plainStart := time.Now()
		released, err := r.Lock(t.Context(), []string{"d"}, ttl)
		require.NoError(t, err)
		require.NoError(t, released.Unlock(t.Context()))

		locks := r.HeldLocks()
		require.Len(t, locks, 2, "the released one is gone")
		first := locks[0]
		assert.Len(t, first.Holder, 12)
		assert.NotContains(t, kept.Token(), first.Holder)
		assert.Equal(t, redlock.HeldLock{
			Resources: []string{"a", "b"}, Since: redlock.StartOf(kept), Extended: redlock.StartOf(kept), Until: kept.Until(), Fence: kept.Fence(),
			Owner: "me", Holder: first.Holder, Kept: true,
		}, first)
		assert.WithinDuration(t, start, first.Since, time.Millisecond)
		assert.Equal(t, []string{"c"}, locks[1].Resources)
		assert.False(t, locks[1].Kept)
		assert.Zero(t, locks[1].Fence)
		assert.Empty(t, locks[1].Owner)
		assert.WithinDuration(t, plainStart, locks[1].Extended, time.Millisecond)

		locks[0].Resources[0] = "mine to change"
		assert.Equal(t, []string{"a", "b"}, r.HeldLocks()[0].Resources)

		time.Sleep(5 * time.Second) // The plain one has ended; the kept one was extended.
		synctest.Wait()
		locks = r.HeldLocks()
		require.Len(t, locks, 1)
		assert.True(t, locks[0].Extended.After(locks[0].Since))
		assert.Equal(t, kept.Until(), locks[0].Until)
		assert.Len(t, locks, r.Stats().Held)
		require.NoError(t, kept.Unlock(t.Context()))
		<-ctx.Done()
		assert.Empty(t, r.HeldLocks())
	})
}

// A clock that jumped forward during a suspend ends locks that the registry has not swept yet.
func TestStatsListNoLockThatTheWallClockHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		_, err := r.Lock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		testkit.WallOffset(r).Store(int64(time.Hour))
		assert.Zero(t, r.Stats().Held)
		assert.Empty(t, r.HeldLocks())
	})
}

func TestStatsListWaitingCalls(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithRetryCount(-1), redlock.WithRetryDelay(time.Second), redlock.WithRetryJitter(0))
		other := newRedlock(t, c, redlock.WithOwner("them"))
		assert.Empty(t, r.WaitingCalls())
		held, err := other.Lock(t.Context(), []string{"x"}, time.Hour)
		require.NoError(t, err)
		start := time.Now()
		first := startLock(t, r, t.Context(), []string{"x", "w"}, redlock.WithOwner("first"))
		time.Sleep(100 * time.Millisecond)
		second := startLock(t, r, t.Context(), []string{"x"}, redlock.WithOwner("second"))
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		polls := startLock(t, r, ctx, []string{"x"}, redlock.WithPolling())
		time.Sleep(2 * time.Second)
		synctest.Wait()

		calls := r.WaitingCalls()
		require.Len(t, calls, 3)
		assert.Len(t, calls, r.Stats().Waiting)
		one := calls[0]
		assert.Equal(t, []string{"w", "x"}, one.Resources)
		assert.Equal(t, "first", one.Owner)
		assert.WithinDuration(t, start, one.Since, 50*time.Millisecond)
		assert.Equal(t, 1, one.Position)
		assert.Equal(t, 3, one.Attempts)
		assert.Equal(t, redlock.ErrTaken, one.Err)
		assert.Equal(t, "them", one.HolderOwner)
		assert.Equal(t, other.HeldLocks()[0].Holder, one.Holder)
		assert.Equal(t, "second", calls[1].Owner)
		assert.Equal(t, 2, calls[1].Position)
		assert.Equal(t, 0, calls[2].Position, "it polls")
		assert.Equal(t, 3, calls[2].Attempts)
		assert.Equal(t, "them", calls[2].HolderOwner)

		cancel()
		<-polls.done
		require.Len(t, r.WaitingCalls(), 2)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, first.got(t).Unlock(t.Context()))
		require.NoError(t, second.got(t).Unlock(t.Context()))
		assert.Empty(t, r.WaitingCalls())
	})
}

func TestStatsMeasureTheRoundTripTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		assert.Zero(t, r.Stats().Nodes[0].RTT, "nothing was asked yet")
		slow := c.Nodes[1]
		require.NoError(t, slow.Slow(40*time.Millisecond, 40*time.Millisecond))
		for range 30 {
			l, err := r.Lock(t.Context(), []string{"a"}, ttl)
			require.NoError(t, err)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(100 * time.Millisecond)
		}
		nodes := r.Stats().Nodes
		assert.Less(t, nodes[0].RTT, 5*time.Millisecond)
		assert.InDelta(t, 80*time.Millisecond, nodes[1].RTT, float64(10*time.Millisecond), "40 ms each way")
	})
}

func TestInspectShowsWhoHoldsAResource(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.False(t, in.Held)
		assert.Len(t, in.Nodes, 5)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Del("p:a"))
		time.Sleep(10 * time.Millisecond)
		in, err = r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, 3, in.Need)
		assert.True(t, in.Held)
		assert.Equal(t, tokens.Digest(l.Token()), in.Holder)
		assert.True(t, strings.HasPrefix(l.Token(), strings.TrimSuffix(in.TokenStart, "…")))
		assert.Len(t, strings.TrimSuffix(in.TokenStart, "…"), 8)
		assert.InDelta(t, ttl-time.Second, in.TTL, float64(20*time.Millisecond))
		require.Error(t, in.Nodes[0].Err)
		assert.Empty(t, in.Nodes[1].Holder)
		require.NoError(t, c.Nodes[2].Set("p:a", "x", 0))
		require.NoError(t, c.Nodes[3].Hang())
		start := time.Now()
		in, err = r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, redlock.DefaultNodeTimeout, time.Since(start))
		assert.False(t, in.Held)
		assert.Equal(t, "x", in.Nodes[2].TokenStart)
		assert.Negative(t, in.Nodes[2].TTL)
		require.ErrorIs(t, in.Nodes[3].Err, redlock.ErrNodeTimeout)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = r.Inspect(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestOwnerIsShownByARefusal(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"plain": nil, "fencing": {redlock.WithFencing()}, "quarantine": {redlock.WithQuarantine(time.Minute)},
		"fencing, quarantine": {redlock.WithFencing(), redlock.WithQuarantine(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				a, b := newRedlock(t, c, append(opts, redlock.WithOwner("default"))...), newRedlock(t, c, opts...)
				if strings.HasSuffix(name, "quarantine") {
					require.NoError(t, a.Admit(t.Context(), names(c)...))
				}
				l, err := a.TryLock(t.Context(), []string{"a"}, 5*time.Second, redlock.WithOwner(oddOwner))
				require.NoError(t, err)
				synctest.Wait()
				shows := func(err error) {
					t.Helper()
					require.ErrorIs(t, err, redlock.ErrTaken)
					refused := 0
					for _, v := range votesOf(t, err) {
						if !errors.Is(v.Err, redlock.ErrPending) { // The decision may come before the last.
							refused++
							assert.Equal(t, oddOwner, v.Owner)
							assert.Equal(t, tokens.Digest(l.Token()), v.Holder)
						}
					}
					assert.GreaterOrEqual(t, refused, 2)
					assert.Contains(t, err.Error(), fmt.Sprintf("held by %q (%s) for ", oddOwner, tokens.Digest(l.Token())))
					assert.NotContains(t, err.Error(), l.Token()[:8])
				}
				_, err = b.TryLock(t.Context(), []string{"a", "b"}, time.Second)
				shows(err)
				_, err = b.Lock(t.Context(), []string{"a"}, time.Second, redlock.WithRetryCount(1)) // In line.
				shows(err)
				in, err := b.Inspect(t.Context(), "a")
				require.NoError(t, err)
				assert.True(t, in.Held)
				assert.Equal(t, oddOwner, in.Owner)
				assert.Equal(t, oddOwner, l.Owner())
				assert.Equal(t, l.Holder(), in.Holder)
				for _, n := range in.Nodes {
					assert.Equal(t, oddOwner, n.Owner)
				}
				assert.Equal(t, l.Token()[:8]+"…", in.TokenStart)

				// The label goes on with the lock, and is no part of what is done with it.
				require.NoError(t, l.Extend(t.Context(), 5*time.Second))
				require.NoError(t, l.Unlock(t.Context()))
				l, err = a.TryLock(t.Context(), []string{"a"}, time.Second)
				require.NoError(t, err)
				assert.Equal(t, "default", tokens.LabelOf(l.Token()))
				require.NoError(t, l.Unlock(t.Context()))
				l, err = a.TryLock(t.Context(), []string{"a"}, time.Second, redlock.WithOwner(""))
				require.NoError(t, err)
				assert.Len(t, l.Token(), tokens.Length, "without a label nothing is different")
				require.NoError(t, l.Unlock(t.Context()))
			})
		})
	}
}

// Where several resources are taken, the holder of the first one in sorted order is shown, with
// its own label.
func TestOwnerOfTheFirstResourceIsShown(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		first, err := r.TryLock(t.Context(), []string{"a"}, time.Second, redlock.WithOwner("first"))
		require.NoError(t, err)
		_, err = r.TryLock(t.Context(), []string{"b"}, ttl, redlock.WithOwner("second"))
		require.NoError(t, err)
		synctest.Wait()
		_, err = r.TryLock(t.Context(), []string{"b", "a", "c"}, ttl)
		require.ErrorIs(t, err, redlock.ErrTaken)
		for _, v := range votesOf(t, err) {
			if !errors.Is(v.Err, redlock.ErrPending) {
				assert.Equal(t, "first", v.Owner)
				assert.Equal(t, tokens.Digest(first.Token()), v.Holder)
				assert.Equal(t, ttl, v.HolderTTL, "the longest")
			}
		}
	})
}

// Of a value that is no token of this library with a label, nothing is shown but its
// digest, and the beginning that Inspect shows of every value.
func TestOwnerIsNotReadFromAForeignToken(t *testing.T) {
	hexes := strings.Repeat("0123456789abcdef", 4)
	foreign := map[string]string{
		"redsync":              "zYJ3P2q0o6vGm2xYw3mD8l5k0eA=",
		"node-redlock":         hexes[:40],
		"RedLock.net":          "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
		"no label":             hexes[:32],
		"an empty label":       hexes[:32] + tokens.LabelMark,
		"31 digits":            hexes[:31] + tokens.LabelMark + "x",
		"33 digits":            hexes[:33] + tokens.LabelMark + "x",
		"capital digits":       strings.ToUpper(hexes[:32]) + tokens.LabelMark + "x",
		"another separator":    hexes[:32] + " owner:x",
		"half a separator":     hexes[:32] + " owner",
		"a separator alone":    tokens.LabelMark + "x",
		"separator, then hex":  tokens.LabelMark + hexes[:32],
		"a label that is long": hexes[:32] + tokens.LabelMark + strings.Repeat("x", tokens.MaxLabel+1),
		"no UTF-8":             hexes[:32] + tokens.LabelMark + "\xff\xfe",
		"a line break":         hexes[:32] + tokens.LabelMark + "x\nlevel=ERROR",
		"a zero":               hexes[:32] + tokens.LabelMark + "\x00",
		"a zero before":        hexes[:31] + "\x00" + tokens.LabelMark + "x",
		"text that turns":      hexes[:32] + tokens.LabelMark + "\u202excod",
		"nothing but a space":  " ",
		"a long value":         strings.Repeat("a", 1<<16),
	}
	for name, value := range foreign {
		assert.Empty(t, tokens.LabelOf(value), name)
	}
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		for name, value := range foreign {
			require.NoError(t, c.Set("a", value, time.Minute))
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
			require.ErrorIs(t, err, redlock.ErrTaken, name)
			for _, v := range votesOf(t, err) {
				assert.Empty(t, v.Owner, name)
			}
			_, err = r.Lock(t.Context(), []string{"a"}, ttl, redlock.WithRetryCount(1))
			require.ErrorIs(t, err, redlock.ErrTaken, name)
			for _, v := range votesOf(t, err) {
				assert.Empty(t, v.Owner, name)
			}
			in, err := r.Inspect(t.Context(), "a")
			require.NoError(t, err, name)
			assert.Empty(t, in.Owner, name)
			assert.LessOrEqual(t, len(in.TokenStart), 8+len("…"), name)
		}
		longest := hexes[:32] + tokens.LabelMark + strings.Repeat("x", tokens.MaxLabel)
		require.NoError(t, c.Set("a", longest, time.Minute))
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("x", tokens.MaxLabel), in.Owner)
	})
}

func TestOwnerIsCheckedBeforeAnyIO(t *testing.T) {
	nodes := forbiddenNodes(t, 3)
	r, err := redlock.New(nodes)
	require.NoError(t, err)
	for want, label := range map[string]string{
		`owner label "x\ny"`:       "x\ny",
		`owner label "\xff"`:       "\xff",
		`owner label "\u202e"`:     "\u202e",
		`of 129 bytes: must not e`: strings.Repeat("ü", tokens.MaxLabel/2) + "x",
	} {
		_, err := redlock.New(nodes, redlock.WithOwner(label))
		require.ErrorContains(t, err, want)
		_, err = r.TryLock(t.Context(), []string{"a"}, ttl, redlock.WithOwner(label))
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, tokens.CheckLabel(strings.Repeat("ü", tokens.MaxLabel/2)))
	require.NoError(t, tokens.CheckLabel(""))
}

func TestOwnerIsShownByEvents(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		var out bytes.Buffer
		log := redlock.SlogHook(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		r := newRedlock(t, c, redlock.WithOwner("mine"), redlock.WithHook(func(ctx context.Context, e redlock.Event) { rec.Hook(ctx, e); log(ctx, e) }))
		other := newRedlock(t, c, redlock.WithOwner("theirs"))
		l, err := other.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		_, err = r.Lock(t.Context(), []string{"a"}, ttl, redlock.WithRetryCount(1))
		require.ErrorIs(t, err, redlock.ErrTaken)
		synctest.Wait()
		kinds := map[redlock.EventKind]int{}
		for _, e := range rec.Take() {
			if len(e.Resources) == 0 {
				assert.Empty(t, e.Owner, e.Kind)
				continue
			}
			kinds[e.Kind]++
			assert.Equal(t, "mine", e.Owner, e.Kind)
			for _, v := range e.Votes {
				if v.Holder != "" {
					assert.Equal(t, "theirs", v.Owner)
				}
			}
		}
		assert.Positive(t, kinds[redlock.EventDecided])
		assert.Positive(t, kinds[redlock.EventSettled])
		assert.Positive(t, kinds[redlock.EventWaiting])
		assert.Contains(t, out.String(), "theirs")
		assert.NotContains(t, out.String(), l.Token()[:8])
	})
}
