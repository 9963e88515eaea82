package redlock_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Whatever it is for which there is no lock, it is the one error to test for, and what it says besides stays.
func TestErrorNotAcquired(t *testing.T) {
	never := func(context.Context, *redlock.Lock) error { t.Error("called without the lock"); return assert.AnError }
	fail := func(ctx context.Context, t *testing.T, r *redlock.Redlock, resource string, ttl time.Duration, besides error) {
		t.Helper()
		_, err := r.Lock(ctx, []string{resource}, ttl, redlock.WithRetryCount(1))
		_, err2 := r.Lock(ctx, []string{resource}, ttl, redlock.WithRetryCount(1), redlock.WithPolling())
		for _, err := range []error{err, err2, r.Do(ctx, []string{resource}, ttl, never, redlock.WithRetryCount(0))} {
			require.ErrorIs(t, err, redlock.ErrNotAcquired)
			if besides != nil {
				require.ErrorIs(t, err, besides)
			}
		}
	}
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		for i, n := range c.Nodes {
			require.NoError(t, n.Set("a", fmt.Sprint("thief", i%2), time.Hour))
		}
		fail(t.Context(), t, r, "a", ttl, redlock.ErrTaken)
		fail(t.Context(), t, r, "", ttl, nil)
		fail(t.Context(), t, r, "b", 0, nil)
		var none context.Context
		fail(none, t, r, "b", ttl, redlock.ErrNilContext)
		fail(t.Context(), t, nil, "b", ttl, redlock.ErrNilRedlock)
		err := r.Do(t.Context(), []string{"b"}, ttl, nil)
		require.ErrorIs(t, err, redlock.ErrNilFunc)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		short := within(t, 50*time.Millisecond)
		<-short.Done()
		fail(short, t, r, "b", ttl, context.DeadlineExceeded)
		require.NoError(t, c.Stop())
		fail(t.Context(), t, r, "b", ttl, redlock.ErrNoQuorum)
		waiting := meanwhile(func() error {
			return lockError(r.Lock(context.Background(), []string{"a"}, ttl, redlock.WithRetryCount(-1)))
		})
		synctest.Wait()
		require.NoError(t, r.Close(t.Context()))
		err = <-waiting
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorIs(t, err, redlock.ErrClosed)
		fail(t.Context(), t, r, "b", ttl, redlock.ErrClosed)
	})
}

// Do's own failure is told from its function's, also if that is of the same kind.
func TestErrorOfDoTellsItsOwnFailureFromItsFunctions(t *testing.T) {
	withRedlock(t, 3, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
		require.NoError(t, c.Set("taken", "thief", time.Hour))
		var inner error
		nested := func(ctx context.Context, _ *redlock.Lock) error {
			_, inner = r.TryLock(ctx, []string{"taken"}, ttl)
			require.ErrorIs(t, inner, redlock.ErrNotAcquired)
			inner = fmt.Errorf("the other account: %w", inner)
			return inner
		}
		err := r.Do(t.Context(), []string{"a"}, ttl, nested)
		require.NotErrorIs(t, err, redlock.ErrNotAcquired, "the function was called")
		require.ErrorIs(t, err, redlock.ErrTaken, "whatever else it is stays")
		require.ErrorIs(t, err, inner)
		require.EqualError(t, err, inner.Error())
		assert.Equal(t, []string{"taken"}, quorumError(t, err).Resources)

		// A loss is joined to it as ever.
		err = r.Do(t.Context(), []string{"a"}, ttl, func(ctx context.Context, _ *redlock.Lock) error {
			failed := nested(ctx, nil)
			require.NoError(t, c.Del("a"))
			return failed
		})
		require.NotErrorIs(t, err, redlock.ErrNotAcquired)
		require.ErrorIs(t, err, redlock.ErrTaken)
		require.ErrorIs(t, err, redlock.ErrLost)

		// Other errors are the very ones that the function has returned.
		require.Equal(t, assert.AnError, r.Do(t.Context(), []string{"a"}, ttl, func(context.Context, *redlock.Lock) error { return assert.AnError }))

		// The lock was got, but ctx or the max hold ended before the function was called.
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, n := range c.Nodes {
			require.NoError(t, n.OnCommand(func(string, []string) { cancel() }))
		}
		err = r.Do(ctx, []string{"b"}, ttl, func(context.Context, *redlock.Lock) error { t.Error("called"); return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
		require.NoError(t, c.Slow(time.Millisecond, time.Millisecond))
		uncalled := func(context.Context, *redlock.Lock) error { t.Error("called"); return nil }
		err = r.Do(t.Context(), []string{"c"}, ttl, uncalled, redlock.WithMaxHold(time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrMaxHold)
		require.ErrorIs(t, err, redlock.ErrNotAcquired)
	})
}

// A lock that the context's own lock holds would be waited for for ever.
func TestErrorOfALockOfWhatTheContextsLockHoldsComesAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, redlock.WithPrefix("p:"), redlock.WithRetryCount(-1))
		other := newRedlock(t, c, redlock.WithPrefix("q:"))
		nothing := func(context.Context, *redlock.Lock) error { return nil }
		refused := func(ctx context.Context, resources ...string) {
			t.Helper()
			start := time.Now()
			_, err := r.TryLock(ctx, resources, ttl)
			require.ErrorIs(t, err, redlock.ErrAlreadyHeld, "or Lock would wait for ever")
			_, err2 := r.Lock(ctx, resources, ttl)
			for _, err := range []error{err, err2, r.Do(ctx, resources, ttl, nothing)} {
				require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
				require.ErrorIs(t, err, redlock.ErrNotAcquired)
				require.ErrorIs(t, err, redlock.ErrTaken, "which it is, for whoever asks for no more")
				require.NotErrorIs(t, err, redlock.ErrNoQuorum)
			}
			assert.Zero(t, time.Since(start))
		}
		require.NoError(t, r.Do(t.Context(), []string{"a", "b"}, time.Minute, func(ctx context.Context, outer *redlock.Lock) error {
			refused(ctx, "a")
			refused(ctx, "c", "b")
			refused(ctx, "b", "0")
			_, own := r.Lock(ctx, []string{"c", "b"}, ttl)
			require.EqualError(t, own, `redlock: lock ["b" "c"]: already held by the lock of this context: "b"`)
			require.NoError(t, r.Do(ctx, []string{"c"}, ttl, func(ctx context.Context, inner *redlock.Lock) error {
				refused(ctx, "a")
				refused(ctx, "c")
				got, ok := redlock.FromContext(ctx)
				assert.True(t, ok)
				assert.Same(t, inner, got)
				l, err := r.TryLock(ctx, []string{"d"}, ttl)
				require.NoError(t, err)
				again := outer.KeepAlive(l.KeepAlive(ctx))
				refused(again, "d")
				refused(again, "c")
				refused(again, "a")
				require.NoError(t, l.Unlock(ctx))
				_, err = r.TryLock(context.WithoutCancel(again), []string{"d"}, ttl)
				return err // A lock that has ended does not count.
			}))
			require.NoError(t, other.Do(ctx, []string{"a"}, ttl, nothing), "another key")
			require.NoError(t, outer.Unlock(ctx))
			l, err := r.Lock(context.WithoutCancel(ctx), []string{"a"}, ttl)
			require.NoError(t, err)
			return l.Unlock(ctx)
		}))
	})
}

// talker listens on a loopback port, and serves each connection with talk.
func talker(t *testing.T, talk func(conn net.Conn)) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				talk(conn)
				_ = conn.Close()
			}()
		}
	}()
	return ln.Addr().String()
}

// The first thing that goes wrong with a new installation is the address.
func TestErrorNamesAPortThatSpeaksSomethingElse(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := testcluster.RunEmbedded(t, 1).Nodes[0].Addr()
	ssh := talker(t, func(conn net.Conn) {
		_, _ = fmt.Fprint(conn, "SSH-2.0-OpenSSH_9.6\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	hangs := talker(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	says := func(words string) string {
		return talker(t, func(conn net.Conn) { _, _ = fmt.Fprint(conn, words) })
	}
	closes := talker(t, func(conn net.Conn) { _, _ = bufio.NewReader(conn).ReadString('\n') })
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	hostOf := func(url string) string { return url[strings.LastIndex(url, "/")+1:] }
	trust := redis.DialTLSConfig(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12})
	foreign := func(addr string, opts ...redis.DialOption) redlock.Node {
		return redlock.Node{Name: "pool", Pool: redlock.PoolFunc(func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", addr, opts...)
		})}
	}
	for name, c := range map[string]struct {
		node redlock.Node
		want string
	}{
		"HTTP":               {redlock.NewNode(hostOf(web.URL)), "the port speaks HTTP"},
		"HTTP, with TLS":     {redlock.NewNode("rediss://" + hostOf(web.URL)), "the port speaks HTTP"},
		"HTTPS, with TLS":    {redlock.NewNode("rediss://"+hostOf(secure.URL), trust), "the port does not seem to speak Redis"},
		"plain, with TLS":    {redlock.NewNode("rediss://" + plain), "not speak TLS"},
		"SSH":                {redlock.NewNode(ssh), `the port does not speak Redis, it began with "SSH-2.0-OpenSSH_"`},
		"hangs up":           {redlock.NewNode(closes), "the server hung up before it answered anything: it may expect TLS"},
		"SSH, TLS in a pool": {foreign(ssh, redis.DialUseTLS(true)), "the port does not speak TLS"},
		"says why":           {redlock.NewNode(says("-DENIED protected\r\n")), `the server said "DENIED protected" and hung up`},
		"says why, at length": {
			redlock.NewNode(says("-ERR \x1b[31m" + strings.Repeat("m", 500) + "\r\n")),
			`the server said "ERR \x1b[31m` + strings.Repeat("m", 200-len("ERR \x1b[31m")) + `" and hung up`,
		},
		"hangs, with TLS": {redlock.NewNode("rediss://" + hangs), "the server does not answer the TLS handshake: the port may not speak TLS"},
		"knows no SCRIPT": {redlock.NewNode(says(strings.Repeat("-ERR unknown command 'SCRIPT'\r\n", 50))), "it may be a proxy (take the addresses"},
		"SSH, a pool":     {foreign(ssh), "the port does not seem to speak Redis"},
		"with a password": {redlock.NewNode("redis://:secret@" + hostOf(web.URL)), "the port speaks HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newOver(t, []redlock.Node{c.node}, redlock.WithNodeTimeout(patient))
			err := refusal(t, redlock.ErrNoQuorum, r, []string{"a"}, time.Minute)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// What is said of a quorum is what New has made of the number of nodes.
func TestErrorsAndTextsSayWhatAQuorumIs(t *testing.T) {
	for n, need := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		withWarm(t, n, func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock) {
			lockElsewhere(t, c, "x", time.Hour)
			_, err := r.TryLock(t.Context(), []string{"x"}, ttl)
			assert.Equal(t, need, quorumError(t, err).Need)
			in, err := r.Inspect(t.Context(), "x")
			require.NoError(t, err)
			assert.Equal(t, need, in.Need)
			testkit.AdmissionOf(r).Close(calls.ErrTurnedAway)
			_, err = r.TryLock(t.Context(), []string{"x"}, ttl)
			assert.Equal(t, need, quorumError(t, err).Need, "no node was asked")
		})
	}
}
