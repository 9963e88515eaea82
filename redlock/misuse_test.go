package redlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// redlockCalls is every method of a Redlock that returns an error.
func redlockCalls(r *redlock.Redlock) map[string]func(ctx context.Context) error {
	one := []string{"a"}
	return map[string]func(ctx context.Context) error{
		"TryLock": func(ctx context.Context) error { _, err := r.TryLock(ctx, one, ttl); return err },
		"Lock":    func(ctx context.Context) error { _, err := r.Lock(ctx, one, ttl); return err },
		"Do": func(ctx context.Context) error {
			return r.Do(ctx, one, ttl, func(context.Context, *redlock.Lock) error { return nil })
		},
		"Inspect": func(ctx context.Context) error { _, err := r.Inspect(ctx, "a"); return err },
		"Admit":   func(ctx context.Context) error { return r.Admit(ctx, "n") },
		"Close":   func(ctx context.Context) error { return r.Close(ctx) },
	}
}

func TestArgumentOfARedlockThatIsNone(t *testing.T) {
	for want, r := range map[string]*redlock.Redlock{
		"redlock: nil *Redlock: did New return an error?":         nil,
		"redlock: this Redlock is a zero value: make it with New": {},
	} {
		for name, call := range redlockCalls(r) {
			require.EqualError(t, call(t.Context()), want, name)
		}
		require.PanicsWithError(t, want, func() { r.Stats() })
	}
}

func TestArgumentOfALockThatIsNone(t *testing.T) {
	for want, l := range map[string]*redlock.Lock{
		"redlock: nil *Lock: did the call that should have made it return an error?": nil,
		"redlock: this Lock is a zero value: only a Redlock makes locks":             {},
	} {
		for name, call := range map[string]func() error{
			"Err":    l.Err,
			"Extend": func() error { return l.Extend(noContext, ttl) },
			"Unlock": func() error { return l.Unlock(noContext) },
		} {
			require.EqualError(t, call(), want, name)
		}
		for name, call := range map[string]func(){
			"Resources": func() { l.Resources() },
			"Token":     func() { l.Token() },
			"Fence":     func() { l.Fence() },
			"Attempts":  func() { l.Attempts() },
			"Until":     func() { l.Until() },
			"KeepAlive": func() { l.KeepAlive(t.Context()) },
		} {
			require.PanicsWithError(t, want, call, name)
		}
	}
}

// noContext is what a caller passes by mistake.
var noContext context.Context

func TestArgumentOfANilContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithQuarantine(time.Minute))
		for name, call := range redlockCalls(r) {
			require.EqualError(t, call(noContext), "redlock: nil context", name)
		}
		for _, n := range r.Stats().Nodes {
			assert.Zero(t, n.Connects, "before any I/O")
		}
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		require.EqualError(t, l.Extend(noContext, ttl), "redlock: nil context")
		require.PanicsWithError(t, "redlock: nil context", func() { l.KeepAlive(noContext) })
		require.PanicsWithError(t, "redlock: nil context", func() { redlock.FromContext(noContext) })
		require.NoError(t, l.Err(), "nothing was done to it")
		require.NoError(t, l.Unlock(noContext), "it does not look at the context, and a release is never refused")
		requireReleased(t, c)
	})
}

func TestArgumentOfAGuardThatIsNone(t *testing.T) {
	var g *redlock.Guard
	require.EqualError(t, g.Do(1, func() error { return nil }), "redlock: nil *Guard")
	require.PanicsWithError(t, "redlock: nil *Guard", func() { g.Seen() })
	require.EqualError(t, new(redlock.Guard).Do(1, nil), "redlock: nil function")
}
