package redlockhttp_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// newRedlock returns a Redlock over the cluster's nodes that ends with the test.
func newRedlock(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	nodes := make([]redlock.Node, len(c.Nodes))
	for i, n := range c.Nodes {
		nodes[i] = redlock.Node{Name: n.Name(), Pool: n.Pool()}
	}
	r, err := redlock.New(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond) // One of its nodes may be down.
		defer cancel()
		_ = r.Close(ctx)
	})
	return r
}

const script = `<script>alert("x")</script>`

// busy has a Redlock in a state in which there is something of everything to see: a node that is down,
// locks with and without extensions and fences, one of them on the resource, calls that wait, and a
// lock that was lost. It returns the tokens that must not be seen.
func busy(t *testing.T, c *testcluster.Cluster, resource string) (r *redlock.Redlock, tokens []string) {
	t.Helper()
	r = newRedlock(t, c, redlock.WithOwner("billing-7f9c/42"), redlock.WithNodeTimeout(5*time.Second), redlock.WithRetryCount(-1))
	other := newRedlock(t, c, redlock.WithOwner("billing-2b1d/17"), redlock.WithNodeTimeout(5*time.Second))
	take := func(r *redlock.Redlock, ttl time.Duration, opts []redlock.Option, resources ...string) *redlock.Lock {
		l, err := r.Lock(t.Context(), resources, ttl, opts...)
		require.NoError(t, err)
		tokens = append(tokens, l.Token())
		return l
	}
	fencing := []redlock.Option{redlock.WithFencing()}
	kept := take(r, time.Minute, fencing, "nightly-report")
	kept.KeepAlive(t.Context())
	t.Cleanup(func() { _ = kept.Unlock(context.Background()) }) // Close waits for it.
	take(r, 90*time.Second, nil, "invoice:2026-11-4711")
	take(r, time.Hour, nil, "account:7", "account:12", "account:9", "account:31", "account:77", resource)
	take(other, time.Hour, nil, "mail-queue")
	for _, n := range c.Nodes { // Or one that it has not reached yet could name a call that waits as the holder.
		require.Eventually(t, func() bool {
			_, ok, err := n.Get("mail-queue")
			return err == nil && ok
		}, 30*time.Second, time.Millisecond)
	}
	lost := take(r, time.Hour, nil, "leader")
	require.NoError(t, c.Del("leader"))
	require.ErrorIs(t, lost.Extend(t.Context(), time.Hour), redlock.ErrLost)
	require.Eventually(t, func() bool { // Or there is nothing that breaks.
		return r.Stats().Nodes[len(c.Nodes)-1].Up
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, c.Nodes[len(c.Nodes)-1].Stop())
	for _, owner := range []string{"", "sender"} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = r.Lock(ctx, []string{"mail-queue"}, time.Minute, redlock.WithOwner(owner), countsRetries) // It waits until the end.
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%+v\n%s", r.WaitingCalls(), r.Stats().Nodes, lastKinds(r))
		}
	}()
	require.Eventually(t, func() bool {
		return knowHolder(r) == 2 && !r.Stats().Nodes[len(c.Nodes)-1].Up && strings.Contains(lastKinds(r), "node down")
	}, 30*time.Second, 5*time.Millisecond)
	return r, tokens
}

// countsRetries has a call that stands behind another one from the beginning learn for whom it waits, after a
// retry delay. Without, nothing has it look up before its turn.
var countsRetries = redlock.WithRetryIf(func(error) bool { return true })

// knowHolder counts the calls that wait and know for whom.
func knowHolder(r *redlock.Redlock) (n int) {
	for _, call := range r.WaitingCalls() {
		if call.HolderOwner != "" {
			n++
		}
	}
	return n
}

func lastKinds(r *redlock.Redlock) string {
	var kinds []string
	for _, e := range r.RecentEvents() {
		kinds = append(kinds, string(e.Kind))
	}
	return strings.Join(kinds, ", ")
}
