package redlock_test

import (
	"context"
	"errors"
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
	"node timeout 24h0m0.0": redlock.WithNodeTimeout(redlock.MaxWait + time.Millisecond),
	"node timeout 0s":       redlock.WithNodeTimeout(0),
	"node timeout -1s":      redlock.WithNodeTimeout(-time.Second),
	"nil Option":            nil,
	"retry delay 200ns: is below 10µs; a unit is missing, as in 200*time.Millisecond": redlock.WithRetryDelay(200),
	"node timeout 50ns: is be": redlock.WithNodeTimeout(50),
	"retry jitter 9.999µs: is": redlock.WithRetryJitter(10*time.Microsecond - 1),
	"min hold 30ns: is below ": redlock.WithMinHold(30),
	"max hold 30ns: is below ": redlock.WithMaxHold(30),
	"stop time 30ns: is below": redlock.WithStopTime(30),
	"wait 5ns: is below 10µs;": redlock.WithWait(5),
	"wait -1ns: must not be n": redlock.WithWait(-1),
	"wait 24h0m0.001s: must n": redlock.WithWait(redlock.MaxWait + time.Millisecond),
	"retry count -2":           redlock.WithRetryCount(-2),
	"retry jitter -1ns":        redlock.WithRetryJitter(-1),
	"WithRetryIf":              redlock.WithRetryIf(nil),
	"drift factor NaN":         redlock.WithDriftFactor(math.NaN()),
	"drift factor 1:":          redlock.WithDriftFactor(1),
	"drift factor -0.1":        redlock.WithDriftFactor(-0.1),
	"drift factor +Inf":        redlock.WithDriftFactor(math.Inf(1)),
	"fence life 0s":            redlock.WithFenceLife(0),
	"fence life -1s":           redlock.WithFenceLife(-time.Second),
	"stop time -1ns":           redlock.WithStopTime(-1),
	`owner label "x\ny"`:       redlock.WithOwner("x\ny"),
	`owner label "\xff"`:       redlock.WithOwner("\xff"),
	`owner label "\u202e"`:     redlock.WithOwner("\u202e"),
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
		"connection age 1ns: is bel": redlock.WithConnectionAge(1),
		"connect timeout -1ns":       redlock.WithConnectTimeout(-1),
		"connection age -1ns":        redlock.WithConnectionAge(-1),
		"connection age 24h0m0.001s": redlock.WithConnectionAge(redlock.MaxWait + time.Millisecond),
		"connect timeout 24h0m0.001": redlock.WithConnectTimeout(redlock.MaxWait + time.Millisecond),
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
	refuse("no resources", []string{}, ttl)
	refuse("empty resource", []string{"x", ""}, ttl)
	refuse(`resource "__redlock__:x"`, []string{"__redlock__:x"}, ttl)
	refuse(`resource "q:__redlock__:x"`, []string{"q:__redlock__:x"}, ttl)
	refuse("ttl 0s", ok, 0)
	refuse("ttl -1s", ok, -time.Second)
	refuse("ttl 999.999µs", ok, time.Millisecond-1)
	refuse("ttl 2ms", ok, 2*time.Millisecond)
	refuse("ttl 27777h46m40s: must not exceed a year", ok, 1e8*time.Second)
	refuse("must not exceed a year; is it given in another unit?", ok, 366*24*time.Hour+1)
	for want, opt := range badOptions {
		refuse(want, ok, ttl, opt)
	}
	for want, opts := range map[string][]redlock.Option{
		"ttl 10s: nothing is left":                                                  {redlock.WithDriftFactor(0.9999)},
		"retry jitter 100ms: must not exceed the retry delay 50ms":                  {redlock.WithRetryJitter(100 * time.Millisecond), redlock.WithRetryDelay(50 * time.Millisecond)},
		"ttl 10s: must not exceed the fence life 9.999999999s":                      {redlock.WithFencing(), redlock.WithFenceLife(ttl - 1)},
		"min hold 10.000000001s: must not exceed the ttl 10s":                       {redlock.WithMinHold(ttl + 1)},
		"stop time 9.898s: must be shorter than the validity 9.898s of the ttl 10s": {redlock.WithStopTime(testkit.Validity(ttl))},
		"WithPrefix":         {redlock.WithPrefix("x")},
		"WithConnectTimeout": {redlock.WithConnectTimeout(time.Second)},
		"WithConnectionAge":  {redlock.WithConnectionAge(time.Second)},
		"WithHook":           {redlock.WithHook(nil)},
		"WithQuarantine":     {redlock.WithQuarantine(time.Minute)},
		"WithTracer":         {redlock.WithTracer(&callTracer{})},
	} {
		refuse(want, ok, ttl, opts...)
	}
	ctx := cancelled(t)
	calls := redlockCalls(r)
	for _, name := range []string{"TryLock", "Lock", "Inspect"} {
		require.ErrorIs(t, calls[name](ctx), context.Canceled)
	}
	_, err := r.Inspect(t.Context(), "")
	require.ErrorContains(t, err, "empty resource")
	require.NoError(t, r.Close(t.Context()))
	for _, name := range []string{"TryLock", "Lock", "Inspect"} {
		require.ErrorIs(t, calls[name](t.Context()), redlock.ErrClosed)
	}
}

func TestAddressThatIsMalformed(t *testing.T) {
	for _, addr := range []string{
		"", "h", "h:", "h:0", "h:65536", "h:x", "a:b:c", "http://h:1", "redis://h:1/x", "redis://h:1/-1", "redis://h:1?x=y",
		"unix://h/p", "unix://", "unix:///p?db=x", "redis://h:99999",

		// Those that have a password, where it may be or where it may not, do not show it.
		"redis://u:s3cret@h:x", "redis://u:s3cret@h:1/x", "u:s3cret@h:1:2", "redis://u:s3cret%zz@h:1",
		"redis://host:6379?password=s3cret", "redis://:s3cret", "redis://:1234567", "redis://u:1234567",
		"redis://:12/s3cret@host:6379", "redis://u:99999s3cret/x@h:1", "redis://host:6379/s3cret", "redis://h#s3cret",
		"foo://u:s3cret@host:1", "redis://u:s3cret@h:1?x=y@s3cret", "unix:///p?db=s3cret",
		"s3cret@redis.invalid:6379", "u:s3cret@redis.invalid:6379", ":s3cret@redis.invalid:6379",
		"redis://h%40s3cret:1",
	} {
		_, err := redlock.New([]redlock.Node{redlock.NewNode(addr)})
		require.ErrorContains(t, err, "malformed address", addr)
		require.NotContains(t, err.Error(), "s3cret", addr)
		require.NotContains(t, err.Error(), "1234567", addr)
	}
	_, err := redlock.New([]redlock.Node{redlock.NewNode("u:s3cret@redis.invalid:6379")})
	require.ErrorContains(t, err, "credentials need a URL: redis://user:password@host:port")
	_, err = redlock.New([]redlock.Node{redlock.NewNode("redis://user:pw@host:99999/2")})
	require.EqualError(t, err, `redlock: node 1 of 1: malformed address "redis://…": port "99999": want 1 to 65535`)
}

// A lostPool has a nil pointer for every call.
type lostPool struct{}

func (*lostPool) GetContext(context.Context) (redis.Conn, error) { return nil, errors.New("x") }

func TestArgumentThatIsNoPool(t *testing.T) {
	for want, pool := range map[string]redlock.Pool{
		"node 1 of 1 (a): nil Pool":         (*lostPool)(nil),
		"(a): nil Pool":                     redlock.PoolFunc(nil),
		"nil Pool":                          redlock.InDatabase(nil, 0),
		"database -1: must not be negative": redlock.InDatabase(&redis.Pool{}, -1),
	} {
		_, err := redlock.New([]redlock.Node{{"a", pool}})
		require.ErrorContains(t, err, want)
	}
	newOver(t, []redlock.Node{{"a", &lostPool{}}})
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
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		l := tryLock(t, r, []string{"a"}, ttl)
		require.EqualError(t, l.Extend(noContext, ttl), "redlock: nil context")
		require.PanicsWithError(t, "redlock: nil context", func() { l.KeepAlive(noContext) })
		require.PanicsWithError(t, "redlock: nil context", func() { redlock.FromContext(noContext) })
		require.NoError(t, l.Err(), "nothing was done to it")
		require.EqualError(t, l.Unlock(noContext), "redlock: nil context")
		require.NoError(t, l.Err(), "it is still held")
		require.NoError(t, l.Unlock(t.Context()))
		requireReleased(t, c)
	})
}

func TestArgumentOfAGuardThatIsNone(t *testing.T) {
	var g *redlock.Guard
	require.EqualError(t, g.Do(1, func() error { return nil }), "redlock: nil *Guard")
	require.PanicsWithError(t, "redlock: nil *Guard", func() { g.Seen() })
	require.EqualError(t, new(redlock.Guard).Do(1, nil), "redlock: nil function")
}
