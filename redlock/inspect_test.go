package redlock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
)

func TestInspectShowsWhoHoldsAResource(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"))
		l := lockOnAll(t, r, []string{"a"}, ttl)
		time.Sleep(time.Second)
		require.NoError(t, c.Nodes[0].Stop())
		require.NoError(t, c.Nodes[1].Del("p:a"))
		require.NoError(t, c.Nodes[2].Set("p:a", l.Token(), 0)) // Without an end, it outlives the others.
		time.Sleep(10 * time.Millisecond)
		in, err := r.Inspect(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, 3, in.Need)
		assert.True(t, in.Held)
		assert.Equal(t, tokens.Digest(l.Token()), in.Holder)
		assert.Equal(t, l.Token()[:8]+"…", in.TokenStart)
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
		_, err = r.Inspect(within(t, time.Millisecond), "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestOwnerIsShownByARefusal(t *testing.T) {
	for name, opts := range map[string][]redlock.Option{
		"plain": nil, "fencing, quarantine": {redlock.WithFencing(), redlock.WithQuarantine(time.Minute)},
	} {
		runInBubble(t, name, 3, func(t *testing.T, c *testcluster.Cluster) {
			a, b := newRedlock(t, c, append(opts, redlock.WithOwner("default"))...), newRedlock(t, c, opts...)
			if strings.HasSuffix(name, "quarantine") {
				require.NoError(t, a.Admit(t.Context(), names(c)...))
			}
			l := tryLock(t, a, []string{"a"}, 5*time.Second, redlock.WithOwner(oddOwner))
			synctest.Wait()
			shows := func(err error) {
				t.Helper()
				require.ErrorIs(t, err, redlock.ErrTaken)
				for _, v := range votesOf(t, err) {
					if !errors.Is(v.Err, redlock.ErrPending) { // The decision may come before the last.
						assert.Equal(t, oddOwner, v.Owner)
						assert.Equal(t, tokens.Digest(l.Token()), v.Holder)
					}
				}
				assert.Contains(t, err.Error(), fmt.Sprintf("held by %q (%s) for ", oddOwner, tokens.Digest(l.Token())))
				assert.NotContains(t, err.Error(), l.Token()[:8])
			}
			_, err := b.TryLock(t.Context(), []string{"a", "b"}, time.Second)
			shows(err)
			_, err = b.Lock(t.Context(), []string{"a"}, time.Second, redlock.WithRetryCount(1)) // In line.
			shows(err)
			in, err := b.Inspect(t.Context(), "a")
			require.NoError(t, err)
			assert.True(t, in.Held)
			assert.Equal(t, oddOwner, in.Owner)
			assert.Equal(t, oddOwner, l.Owner())
			assert.Equal(t, l.Holder(), in.Holder)

			// The label goes on with the lock, and is no part of what is done with it.
			require.NoError(t, l.Extend(t.Context(), 5*time.Second))
			require.NoError(t, l.Unlock(t.Context()))
			l = tryLock(t, a, []string{"a"}, time.Second)
			assert.Equal(t, "default", tokens.LabelOf(l.Token()))
			require.NoError(t, l.Unlock(t.Context()))
			l = tryLock(t, a, []string{"a"}, time.Second, redlock.WithOwner(""))
			assert.Len(t, l.Token(), tokens.Length, "without a label nothing is different")
		})
	}
}

// Where several resources are taken, the holder of the first one in sorted order is shown, with its own label.
func TestOwnerOfTheFirstResourceIsShown(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		first := tryLock(t, r, []string{"a"}, time.Second, redlock.WithOwner("first"))
		tryLock(t, r, []string{"b"}, ttl, redlock.WithOwner("second"))
		synctest.Wait()
		err := refusal(t, redlock.ErrTaken, r, []string{"b", "a", "c"}, ttl)
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
		"RedLock.net":          "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
		"33 digits":            hexes[:33] + tokens.LabelMark + "x",
		"capital digits":       strings.ToUpper(hexes[:32]) + tokens.LabelMark + "x",
		"another separator":    hexes[:32] + " owner:x",
		"a label that is long": hexes[:32] + tokens.LabelMark + strings.Repeat("x", tokens.MaxLabel+1),
		"a line break":         hexes[:32] + tokens.LabelMark + "x\nlevel=ERROR",
		"no UTF-8":             hexes[:32] + tokens.LabelMark + "\xff\xfe",
		"a zero":               hexes[:32] + tokens.LabelMark + "\x00",
		"text that turns":      hexes[:32] + tokens.LabelMark + "\u202excod",
		"a long value":         strings.Repeat("a", 1<<16),
	}
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		for name, value := range foreign {
			require.NoError(t, c.Set("a", value, time.Minute))
			_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
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

func TestOwnerIsShownByEvents(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		var rec recorder
		var out bytes.Buffer
		log := redlock.SlogHook(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		r := newRedlock(t, c, redlock.WithOwner("mine"), redlock.WithHook(func(ctx context.Context, e redlock.Event) { rec.Hook(ctx, e); log(ctx, e) }))
		other := newRedlock(t, c, redlock.WithOwner("theirs"))
		l := tryLock(t, other, []string{"a"}, ttl)
		_ = givesUp(t, redlock.ErrTaken, r, []string{"a"}, redlock.WithRetryCount(1))
		synctest.Wait()
		seen := map[redlock.EventKind]bool{}
		for _, e := range rec.Take() {
			if len(e.Resources) == 0 {
				assert.Empty(t, e.Owner, e.Kind)
				continue
			}
			seen[e.Kind] = true
			assert.Equal(t, "mine", e.Owner, e.Kind)
			for _, v := range e.Votes {
				if v.Holder != "" {
					assert.Equal(t, "theirs", v.Owner)
				}
			}
		}
		assert.True(t, seen[redlock.EventDecided] && seen[redlock.EventSettled] && seen[redlock.EventWaiting])
		assert.Contains(t, out.String(), "theirs")
		assert.NotContains(t, out.String(), l.Token()[:8])
	})
}
