package redsync

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

const nodes = 3

// inBubble runs a test with a cluster, in fake time. None runs beside another one: the process has one register of locks,
// and by the clock of another bubble they may be over.
func inBubble(t *testing.T, f func(t *testing.T, c *redlocktest.Cluster, rs *Redsync), opts ...redlock.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := redlocktest.New(t, nodes, opts...)
		f(t, c, Over(c.Redlock))
	})
}

// success is the error of a call that must succeed.
func success(ok bool, err error) error {
	if err == nil && !ok {
		return errors.New("it is refused without an error")
	}
	return err
}

// refusal is the error of a call that must be refused.
func refusal(ok bool, err error) error {
	if ok {
		return errors.New("it succeeds")
	}
	return err
}

// requireTaken requires an error for which today's code looks by its type. It returns the nodes.
func requireTaken(t *testing.T, err, ours error) []int {
	t.Helper()
	taken, ok := err.(*ErrTaken) //nolint:errorlint // So do callers of redsync.
	require.True(t, ok, "%T: %v", err, err)
	require.ErrorIs(t, err, ours)
	require.NotErrorIs(t, err, ErrFailed)
	require.ErrorContains(t, err, "lock already taken, locked nodes: [")
	return taken.Nodes
}

// requireNoVerdict requires an error that no program takes for a lock that is taken or lost.
func requireNoVerdict(t *testing.T, err error) {
	t.Helper()
	require.NotErrorAs(t, err, new(*ErrTaken))
	for _, not := range []error{ErrFailed, ErrExtendFailed, ErrLockAlreadyExpired} {
		require.NotErrorIs(t, err, not)
	}
}

func TestDefaults(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		m := rs.NewMutex("x")
		assert.Equal(t, "x", m.Name())
		assert.Empty(t, m.Value())
		assert.Zero(t, m.Until())
		start := time.Now()
		require.NoError(t, m.Lock())
		assert.Equal(t, start.Add(8*time.Second*99/100-2*time.Millisecond), m.Until())
		assert.NotEmpty(t, m.Value())
		assert.NotEmpty(t, c.Holder("x"))

		// The key of another client that never releases: 32 tries are 31 waits of 50 to 250 ms.
		start = time.Now()
		c.Take("y", time.Hour)
		requireTaken(t, rs.NewMutex("y").Lock(), redlock.ErrTaken)
		assert.InDelta(t, 31*0.15, time.Since(start).Seconds(), 31*0.1)
	})
}

func TestTries(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		defer c.Take("x", time.Hour)()
		for tries, took := range map[int]time.Duration{1: 0, 2: time.Second, 5: 4 * time.Second} {
			start := time.Now()
			err := rs.NewMutex("x", WithTries(tries), WithRetryDelay(time.Second)).Lock()
			requireTaken(t, err, redlock.ErrTaken)
			assert.Equal(t, took, time.Since(start), tries)
			assert.Equal(t, tries > 1, strings.Contains(err.Error(), "WithTries makes more"), err)
			assert.NotContains(t, err.Error(), "WithWait", "it is the library's")
		}
		none := rs.NewMutex("x", WithTries(0))
		require.ErrorContains(t, none.Lock(), "tries 0")
		start := time.Now()
		assert.GreaterOrEqual(t, len(requireTaken(t, none.TryLock(), redlock.ErrTaken)), 2) // Which has no more than one.
		assert.Zero(t, time.Since(start))
	})
}

func TestRetryDelayFunc(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		defer c.Take("x", time.Hour)()
		var asked []int
		start := time.Now()
		m := rs.NewMutex("x", WithTries(4), WithRetryDelayFunc(func(tries int) time.Duration {
			asked = append(asked, tries)
			return []time.Duration{time.Second, -time.Second, 2 * time.Second}[tries-1]
		}))
		requireTaken(t, m.Lock(), redlock.ErrTaken)
		assert.Equal(t, []int{1, 2, 3}, asked)
		assert.Equal(t, 3*time.Second+time.Millisecond, time.Since(start), "a negative delay is the shortest")
	})
}

func TestExpiryAndTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		m := rs.NewMutex("x", WithExpiry(time.Minute), WithDriftFactor(0.1), WithFailFast(true), WithShufflePools(true))
		start := time.Now()
		require.NoError(t, m.Lock())
		assert.Equal(t, start.Add(54*time.Second-2*time.Millisecond), m.Until())
		time.Sleep(30 * time.Second)
		require.NoError(t, success(m.Extend()))
		assert.Equal(t, start.Add(84*time.Second-2*time.Millisecond), m.Until())
		time.Sleep(50 * time.Second)
		require.NoError(t, success(m.Unlock()))

		c.HangMajority()
		start = time.Now()
		err := rs.NewMutex("x", WithExpiry(10*time.Second), WithTimeoutFactor(0.01)).TryLock()
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
		require.ErrorIs(t, err, redlock.ErrNodeTimeout)
	})
}

// Also over a Redlock whose locks are passed on, the key has the mutex's own token: others ask for it, and unlock by it.
func TestGenValueFunc(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		fails := error(nil)
		m := rs.NewMutex("x", WithGenValueFunc(func() (string, error) { return "same", fails }))
		require.NoError(t, m.Lock())
		assert.Equal(t, "same", m.Value())
		assert.Equal(t, m.Token(), c.Holder("x"))
		assert.True(t, strings.HasSuffix(m.Token(), " owner=same"))
		require.NoError(t, success(m.Unlock()))
		assert.Empty(t, m.Token())
		fails = io.ErrUnexpectedEOF
		assert.Equal(t, fails, m.Lock())
		c.AssertFree()
	}, redlock.WithTurn(10*time.Millisecond))
}

// A lock that is over stays over, and the next one is another one.
func TestSetNXOnExtendLocksAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		m, late := rs.NewMutex("x", WithSetNXOnExtend()), rs.NewMutex("late", WithSetNXOnExtend())
		require.NoError(t, m.Lock())
		first := m.Value()
		require.NoError(t, success(m.Extend()))
		assert.Equal(t, first, m.Value())

		time.Sleep(time.Minute)
		require.NoError(t, success(m.Extend()))
		assert.NotEqual(t, first, m.Value())
		assert.Equal(t, c.Holder("x"), m.Value())
		assert.Greater(t, time.Until(m.Until()), 7*time.Second)

		c.Forget("x")
		release := c.Take("x", time.Hour)
		requireTaken(t, refusal(m.Extend()), redlock.ErrTaken)
		release()
		require.NoError(t, success(m.Extend()), "a leader that only extends gets it back")

		require.NoError(t, success(late.Extend()), "it never had a lock")
		for _, m := range []*Mutex{m, late} {
			require.NoError(t, success(m.Unlock()))
			had := c.Redlock.Stats().Acquired
			requireTaken(t, refusal(m.Extend()), redlock.ErrLost)
			assert.Equal(t, had, c.Redlock.Stats().Acquired, "not for a moment")
		}
		c.AssertFree()
	})
}

// Of simultaneous calls of Extend on a mutex whose lock is over, none finds the new lock of another one or of a Lock in
// its way.
func TestExtendsThatLockAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		m := rs.NewMutex("x", WithSetNXOnExtend())
		for range 20 { // At first it never had one.
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() { assert.NoError(t, success(m.Extend())) })
			}
			all.Go(func() {
				if err := m.TryLock(); err != nil {
					assert.ErrorIs(t, err, redlock.ErrTaken) // Extend was first.
				}
			})
			all.Wait()
			assert.Equal(t, c.Holder("x"), m.Token())
			time.Sleep(time.Minute)
		}

		// Not what another mutex has had, as nobody else would know of it.
		with := rs.NewMutex("x", WithSetNXOnExtend(), WithValue(m.Value()))
		requireTaken(t, refusal(with.Extend()), redlock.ErrLost)
		c.AssertFree()
	})
}

// An Unlock during an Extend that locks again leaves no lock.
func TestUnlockWhileExtendLocksAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		var m *Mutex
		m = rs.NewMutex("x", WithSetNXOnExtend(), WithGenValueFunc(func() (string, error) {
			_, _ = m.Unlock()
			return "v", nil
		}))
		requireTaken(t, refusal(m.Extend()), redlock.ErrLost)
		c.AssertFree()
	})
}

// Wrong values are named before any I/O, whichever call comes first, and nothing panics.
func TestWrongArguments(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		mutexes := map[string]*Mutex{ // Each call names it.
			"timeout factor 0":        rs.NewMutex("x", WithTimeoutFactor(0)),
			"timeout factor NaN":      rs.NewMutex("x", WithTimeoutFactor(math.NaN())),
			"timeout factor +Inf":     rs.NewMutex("x", WithTimeoutFactor(math.Inf(1))),
			"nil Option":              rs.NewMutex("x", nil),
			"WithRetryDelayFunc: nil": rs.NewMutex("x", WithRetryDelayFunc(nil)),
			"WithGenValueFunc: nil":   rs.NewMutex("x", WithGenValueFunc(nil)),
			"a nil Redlock":           Over(nil).NewMutex("x"),
			"a nil Redsync":           (*Redsync)(nil).NewMutex("x"),
			"there is no pool":        new(Redsync).NewMutex("x"),
			"New needs one for each":  New().NewMutex("x"),
			"the mutex is of a nil":   new(Mutex),
		}
		refused := func(err error, says string) {
			t.Helper()
			require.ErrorContains(t, err, says)
			requireNoVerdict(t, err)
		}
		for says, m := range mutexes {
			refused(m.Lock(), says)
			refused(m.TryLock(), says)
			for range 2 { // Then of WithValue.
				refused(refusal(m.Unlock()), says)
				refused(refusal(m.Extend()), says)
				refused(refusal(m.Valid()), says)
				m.value, m.handed = "0123456789abcdef0123456789abcdef", true
			}
		}
		for says, m := range map[string]*Mutex{ // What asks for a lock names it.
			"ttl 0s":                rs.NewMutex("x", WithExpiry(0)),
			"retry delay 48h0m0s":   rs.NewMutex("x", WithRetryDelay(48*time.Hour)),
			"drift factor NaN":      rs.NewMutex("x", WithDriftFactor(math.NaN())),
			"node timeout 2562047h": rs.NewMutex("x", WithTimeoutFactor(1e300)),
			"empty resource":        rs.NewMutex(""),
			"owner label":           rs.NewMutex("x", WithGenValueFunc(func() (string, error) { return "a\nb", nil })),
			"tries -3":              rs.NewMutex("x", WithTries(-3)),
		} {
			refused(m.Lock(), says)
			if says != "tries -3" {
				refused(m.TryLock(), says)
			}
			require.ErrorIs(t, refusal(m.Unlock()), ErrLockAlreadyExpired, says)
			requireTaken(t, refusal(m.Extend()), redlock.ErrLost)
			requireTaken(t, refusal(m.Valid()), redlock.ErrLost)
		}
		for _, n := range c.Redlock.Stats().Nodes {
			assert.Zero(t, n.Connects)
		}
	})
}

func TestTheEndOfTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		m := rs.NewMutex("x", WithTries(1000))
		release := c.Take("x", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := m.LockContext(ctx)
		assert.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrTaken, "what the last attempt saw")
		require.NotErrorAs(t, err, new(*ErrTaken))
		err = m.TryLockContext(ctx)
		require.ErrorAs(t, err, new(*RedisError), "of one try")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrFailed)
		require.ErrorIs(t, m.LockContext(ctx), ErrFailed)
		release()

		// nil is a context that does not end.
		require.NoError(t, m.LockContext(nil)) //nolint:staticcheck // redsync allows it.
		err = refusal(m.ExtendContext(ctx))
		require.ErrorIs(t, err, ErrExtendFailed)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, refusal(m.ValidContext(ctx)), context.DeadlineExceeded)
		require.NoError(t, success(m.UnlockContext(ctx))) // A release does not depend on it.
		c.AssertFree()
	})
}

// What the calls on a mutex say that has no lock, and leave another one's as it is.
func TestWithoutALock(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		m := rs.NewMutex("x")
		requireNone := func(ours error, nodes int) {
			t.Helper()
			requireTaken(t, refusal(m.Valid()), ours)
			assert.GreaterOrEqual(t, len(requireTaken(t, refusal(m.Extend()), ours)), nodes)
			err := refusal(m.Unlock())
			require.ErrorIs(t, err, ErrLockAlreadyExpired)
			require.ErrorIs(t, err, ours)
		}
		requireNone(redlock.ErrLost, 0) // It was never locked.
		for _, tt := range []struct {
			ours  error
			nodes int // that say so
			lose  func()
		}{
			{redlock.ErrLost, 0, func() { require.NoError(t, success(m.Unlock())) }},
			{redlock.ErrExpired, 0, func() { time.Sleep(8*time.Second - 50*time.Millisecond) }}, // The keys are still there.
			{redlock.ErrLost, 2, func() { c.Forget("x") }},
			{redlock.ErrLost, 2, func() { c.Forget("x"); c.Take("x", time.Minute) }},
		} {
			require.NoError(t, m.Lock())
			handed := rs.NewMutex("x", WithValue(m.Value()))
			for _, m := range []*Mutex{m, handed} {
				require.NoError(t, success(m.Valid()))
			}
			tt.lose()
			until := m.Until()
			requireTaken(t, refusal(handed.Valid()), tt.ours)
			requireNone(tt.ours, tt.nodes)
			assert.Equal(t, until, m.Until())
			time.Sleep(10 * time.Second) // Until nothing is left.
		}
		require.NotEmpty(t, c.Holder("x"), "another's lock stays")
	})
}

func TestTooFewNodes(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		requireNodes := func(err error) {
			t.Helper()
			var node *RedisError
			require.ErrorAs(t, err, &node)
			require.Error(t, node.Err)
			require.ErrorIs(t, err, node.Err)
			require.Less(t, node.Node, nodes)
			requireNoVerdict(t, err)
		}
		m := rs.NewMutex("x", WithExpiry(time.Minute))
		require.NoError(t, m.Lock())
		c.StopMajority()
		requireNodes(rs.NewMutex("x").TryLock())
		requireNodes(rs.NewMutex("y", WithTries(3)).Lock())
		requireNodes(refusal(m.Extend()))
		requireNodes(refusal(m.Valid()))
		requireNodes(refusal(m.Unlock()))
		c.Recover()
		require.NoError(t, success(m.Unlock())) // It may be repeated.
	})
}

// A node's refusal is told where it does not decide.
func TestNodeTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		c.Take("x", time.Hour)
		_, err := c.Redlock.Inspect(t.Context(), "x") // Connects it to all.
		require.NoError(t, err)
		c.HangMajority()
		err = rs.NewMutex("x").TryLock()
		var taken *ErrNodeTaken
		require.ErrorAs(t, err, &taken)
		require.ErrorContains(t, err, "node3: held by")
		require.ErrorAs(t, err, new(*RedisError))
		require.NotErrorAs(t, err, new(*ErrTaken))
	})
}

func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, _ *Redsync) {
		r := c.NewRedlock()
		rs := Over(r)
		m, waits := rs.NewMutex("x"), rs.NewMutex("x", WithTries(1000))
		require.NoError(t, m.Lock())
		waiting := make(chan error)
		go func() { waiting <- waits.Lock() }()
		time.Sleep(time.Second)
		require.NoError(t, r.Close(t.Context()))
		for _, err := range []error{<-waiting, rs.NewMutex("y").TryLock()} {
			require.ErrorIs(t, err, redlock.ErrClosed)
			require.NotErrorIs(t, err, ErrFailed)
		}
		err := refusal(m.Extend())
		require.NotErrorIs(t, err, ErrExtendFailed)
		require.ErrorIs(t, err, redlock.ErrClosed)
		err = refusal(m.Unlock())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorAs(t, err, new(*RedisError))
	})
}

// A lock of another process is known by its token: it can be unlocked, and not extended.
func TestValue(t *testing.T) {
	inBubble(t, func(t *testing.T, c *redlocktest.Cluster, rs *Redsync) {
		theirs, err := c.NewRedlock().Lock(t.Context(), []string{"x"}, time.Minute) // The drop-in does not know of it.
		require.NoError(t, err)
		m := rs.NewMutex("x", WithValue(theirs.Token()))
		assert.Equal(t, theirs.Token(), m.Value())
		require.NoError(t, success(m.Valid()))
		err = refusal(m.Extend())
		requireNoVerdict(t, err)
		require.ErrorContains(t, err, "the token of another process's lock")
		requireTaken(t, m.TryLock(), redlock.ErrTaken)
		require.NoError(t, success(m.Unlock()))
		c.AssertFree()
		require.ErrorIs(t, refusal(m.Unlock()), ErrLockAlreadyExpired)
		requireTaken(t, refusal(m.Valid()), redlock.ErrLost)

		// Its own lock takes the place of the value.
		require.NoError(t, m.Lock())
		require.NoError(t, success(m.Extend()))
		require.NoError(t, success(m.Unlock()))

		// A value that is none is not asked about, and not shown.
		none := rs.NewMutex("x", WithValue("a secret"))
		for _, err := range []error{refusal(none.Unlock()), refusal(none.Extend()), refusal(none.Valid())} {
			require.ErrorContains(t, err, "WithValue was given no value")
			require.NotContains(t, err.Error(), "a secret")
			requireNoVerdict(t, err)
		}
	})
}
