package redlock_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// badOptions are refused by New, and by each call.
var badOptions = map[string]redlock.Option{
	"retry delay 24h0m0.00": redlock.WithRetryDelay(redlock.MaxWait + time.Millisecond),
	"retry delay -1s":       redlock.WithRetryDelay(-time.Second),
	"retry delay 200ns: is below 10µs; a unit is missing, as in 200*time.Millisecond": redlock.WithRetryDelay(200),
	"node timeout 0s":          redlock.WithNodeTimeout(0),
	"nil Option":               nil,
	"retry jitter 9.999µs: is": redlock.WithRetryJitter(10*time.Microsecond - 1),
	"min hold 30ns: is below ": redlock.WithMinHold(30),
	"max hold 30ns: is below ": redlock.WithMaxHold(30),
	"stop time -1ns":           redlock.WithStopTime(-1),
	"wait 24h0m0.001s: must n": redlock.WithWait(redlock.MaxWait + time.Millisecond),
	"retry count -2":           redlock.WithRetryCount(-2),
	"WithRetryIf":              redlock.WithRetryIf(nil),
	"drift factor NaN":         redlock.WithDriftFactor(math.NaN()),
	"drift factor 1:":          redlock.WithDriftFactor(1),
	"fence life 0s":            redlock.WithFenceLife(0),
	"turn 5ns: is below":       redlock.WithTurn(5),
	`owner label "x\ny"`:       redlock.WithOwner("x\ny"),
	`owner label "\xff"`:       redlock.WithOwner("\xff"),
	`of 129 bytes: must not e`: redlock.WithOwner(strings.Repeat("ü", tokens.MaxLabel/2) + "x"),
}

func TestArgumentsOfNewAreChecked(t *testing.T) {
	good := forbiddenNodes(t, 3)
	pool := good[0].Pool
	refuse := func(want string, nodes []redlock.Node, opts ...redlock.Option) {
		t.Helper()
		r, err := redlock.New(nodes, opts...)
		require.Nil(t, r, want)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "redlock: ")
	}
	for want, nodes := range map[string][]redlock.Node{
		"no nodes":                              nil,
		"node 2 of 2 has no name":               {{"a", pool}, {"", pool}},
		"node 1 of 1 (a): nil Pool":             {{"a", nil}},
		"node 1 of 1 (b): nil Pool":             {{"b", (*redis.Pool)(nil)}},
		"node 1 of 1 (c): nil Pool":             {{"c", redlock.PoolFunc(nil)}},
		"database -1: must not be negative":     {{"a", redlock.InDatabase(pool, -1)}},
		`nodes 1 and 3 of 3 are both named "a"`: {{"a", pool}, {"b", pool}, {"a", pool}},
		`malformed address "x"`:                 {redlock.NewNode("x")},
		"node 2 of 3: malformed address \"\": it is empty: is a variable unset?": {{"a", pool}, redlock.NewNode(""), redlock.NewNode("")},
	} {
		refuse(want, nodes)
	}
	for want, opt := range badOptions {
		refuse(want, good, opt)
	}
	for want, opt := range map[string]redlock.Option{
		"retry jitter 200.001m":      redlock.WithRetryJitter(200*time.Millisecond + time.Microsecond),
		"connect timeout 1ns: is be": redlock.WithConnectTimeout(1),
		"connection age 24h0m0.001s": redlock.WithConnectionAge(redlock.MaxWait + time.Millisecond),
		"quarantine's maxTTL 1µs":    redlock.WithQuarantine(time.Microsecond),
		"is reserved":                redlock.WithPrefix("x__redlock__:y"),
		"set name of 101 bytes: mus": redlock.WithSetName(strings.Repeat("x", 101)),
	} {
		refuse(want, good, opt)
	}
	r := newOver(t, good, redlock.WithRetryDelay(time.Millisecond), redlock.WithOwner(strings.Repeat("ü", tokens.MaxLabel/2)))
	require.Equal(t, time.Millisecond, redlock.RetryJitter(r))
}

func TestArgumentsOfCallsAreCheckedBeforeAnyIO(t *testing.T) {
	r := newOver(t, forbiddenNodes(t, 3), redlock.WithPrefix("p:"))
	ok := []string{"x"}
	refuse := func(want string, resources []string, ttl time.Duration, opts ...redlock.Option) {
		t.Helper()
		for _, f := range []func(context.Context, []string, time.Duration, ...redlock.Option) (*redlock.Lock, error){r.TryLock, r.Lock} {
			l, err := f(t.Context(), resources, ttl, opts...)
			require.Nil(t, l)
			require.ErrorContains(t, err, want)
		}
	}
	refuse("no resources", nil, ttl)
	refuse("empty resource", []string{"x", ""}, ttl)
	refuse(`resource "q:__redlock__:x"`, []string{"q:__redlock__:x"}, ttl)
	refuse("ttl 999.999µs", ok, time.Millisecond-1)
	refuse("ttl 2ms", ok, 2*time.Millisecond)
	refuse("must not exceed a year; is it given in another unit?", ok, 366*24*time.Hour+1)
	for want, opt := range badOptions {
		refuse(want, ok, ttl, opt)
	}
	for want, opts := range map[string][]redlock.Option{
		"ttl 10s: nothing is left":                                                  {redlock.WithDriftFactor(0.9999)},
		"retry jitter 100ms: must not exceed the retry delay 50ms":                  {redlock.WithRetryJitter(100 * time.Millisecond), redlock.WithRetryDelay(50 * time.Millisecond)},
		"ttl 10s: must not exceed the fence life 9.999999999s":                      {redlock.WithFencing(), redlock.WithFenceLife(ttl - 1)},
		"turn 1.000000001s: must not exceed a tenth":                                {redlock.WithTurn(ttl/10 + 1)},
		"cannot be combined with a min hold, which is":                              {redlock.WithTurn(time.Millisecond), redlock.WithMinHold(time.Second)},
		"min hold 10.000000001s: must not exceed the ttl 10s":                       {redlock.WithMinHold(ttl + 1)},
		"stop time 9.898s: must be shorter than the validity 9.898s of the ttl 10s": {redlock.WithStopTime(testkit.Validity(ttl))},
		"WithPrefix":         {redlock.WithPrefix("x")},
		"WithConnectTimeout": {redlock.WithConnectTimeout(time.Second)},
		"WithQuarantine":     {redlock.WithQuarantine(time.Minute)},
	} {
		refuse(want, ok, ttl, opts...)
	}
	ctx := cancelled(t)
	calls := redlockCalls(r)
	for _, name := range []string{"TryLock", "Lock", "Inspect"} {
		require.ErrorIs(t, calls[name](ctx), context.Canceled)
	}
	q := newOver(t, forbiddenNodes(t, 2), redlock.WithQuarantine(maxTTL))
	require.ErrorContains(t, lockError(q.TryLock(t.Context(), ok, maxTTL+1)), "must not exceed the quarantine's maxTTL 30s")
	require.ErrorContains(t, q.Admit(t.Context(), "a", "c"), `no node is named "c"`)
	require.ErrorContains(t, r.Admit(t.Context(), "a"), "no WithQuarantine")
	_, err := r.Inspect(t.Context(), "")
	require.ErrorContains(t, err, "empty resource")
	require.NoError(t, r.Close(t.Context()))
	for _, name := range []string{"TryLock", "Lock", "Inspect"} {
		require.ErrorIs(t, calls[name](t.Context()), redlock.ErrClosed)
	}
}

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
		"Release": func(ctx context.Context) error { return r.Release(ctx, one, tokens.New()) },
		"Admit":   func(ctx context.Context) error { return r.Admit(ctx, "n") },
		"Close":   func(ctx context.Context) error { return r.Close(ctx) },
	}
}

func TestArgumentThatIsNone(t *testing.T) {
	for want, r := range map[string]*redlock.Redlock{
		"redlock: nil *Redlock: did New return an error?":         nil,
		"redlock: this Redlock is a zero value: make it with New": {},
	} {
		for name, call := range redlockCalls(r) {
			require.EqualError(t, call(t.Context()), want, name)
		}
		require.PanicsWithError(t, want, func() { r.Stats() })
	}
	for want, l := range map[string]*redlock.Lock{
		"redlock: nil *Lock: did the call that should have made it return an error?": nil,
		"redlock: this Lock is a zero value: only a Redlock makes locks":             {},
	} {
		require.EqualError(t, l.Err(), want)
		require.EqualError(t, l.Extend(noContext, ttl), want)
		require.EqualError(t, l.Unlock(noContext), want)
		for name, call := range map[string]func(){
			"Resources": func() { l.Resources() }, "Token": func() { l.Token() }, "Fence": func() { l.Fence() },
			"Attempts": func() { l.Attempts() }, "Until": func() { l.Until() }, "KeepAlive": func() { l.KeepAlive(t.Context()) },
		} {
			require.PanicsWithError(t, want, call, name)
		}
	}
	var g *redlock.Guard
	require.EqualError(t, g.Do(1, func() error { return nil }), "redlock: nil *Guard")
	require.PanicsWithError(t, "redlock: nil *Guard", func() { g.Seen() })
	require.EqualError(t, new(redlock.Guard).Do(1, nil), "redlock: nil function")
}

// noContext is what a caller passes by mistake.
var noContext context.Context

func TestArgumentOfANilContext(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		for name, call := range redlockCalls(r) {
			require.EqualError(t, call(noContext), "redlock: nil context", name)
		}
		assert.Zero(t, connects(r), "before any I/O")
		l := tryLock(t, r, []string{"a"}, ttl)
		require.EqualError(t, l.Extend(noContext, ttl), "redlock: nil context")
		require.PanicsWithError(t, "redlock: nil context", func() { l.KeepAlive(noContext) })
		require.PanicsWithError(t, "redlock: nil context", func() { redlock.FromContext(noContext) })
		require.EqualError(t, l.Unlock(noContext), "redlock: nil context")
		require.NoError(t, l.Err(), "it is still held")
		require.NoError(t, l.Unlock(t.Context()))
	})
}
