package redlock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// What errors say to somebody who has never seen one.
func TestErrorTexts(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		warm(t, r)
		require.NoError(t, c.Nodes[0].SetError("LOADING x"))
		require.NoError(t, c.Nodes[1].SetError("ERR unknown command 'EVALSHA', with args beginning with: 'a' 'the token' "))
		require.NoError(t, c.Nodes[2].Slow(5*time.Millisecond, 5*time.Millisecond))
		_, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.EqualError(t, err, `redlock: lock ["a"]: no quorum (0 of 3 nodes said yes, 2 needed; `+
			`node1: LOADING x; node2: ERR unknown command 'EVALSHA'; node3: not waited for, as it could not change the result)`,
			"what a server repeats of a request is secret")
	})
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithPrefix("p:"))
		warm(t, r)
		require.NoError(t, c.Hang())
		_, err := r.TryLock(t.Context(), []string{"a"}, 3*time.Millisecond)
		require.ErrorContains(t, err, `redlock: lock ["a"] (key "p:a"): no quorum (0 of 3 nodes said yes, 2 needed; `+
			`node1: no answer before the ttl was used up; node2: no answer before the ttl was used up; node3: `)
		_, err = r.TryLock(t.Context(), []string{"a", "b"}, ttl, WithNodeTimeout(20*time.Millisecond))
		require.ErrorContains(t, err, `redlock: lock ["a" "b"] (keys with prefix "p:"): no quorum (0 of 3 nodes said yes, 2 needed; `+
			`node1: node timeout after 20ms; node2: node timeout after 20ms; node3: `)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = r.Lock(ctx, []string{"a"}, ttl)
		require.EqualError(t, err, `redlock: lock ["a"] (key "p:a"): context deadline exceeded; last attempt: no quorum (0 of 3 nodes said yes, 2 needed; `+
			`node1: not waited for; node2: not waited for; node3: not waited for)`)
		assert.Equal(t, `["a" "b" "c" "d" "e" "f" "g" "h" "i" "j"] and 2 more`, named(strings.Split("abcdefghijkl", ""), ""))
	})
	inBubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		l, err := r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		time.Sleep(time.Until(l.Until()))
		require.EqualError(t, l.Unlock(t.Context()), `redlock: unlock ["a"]: lock expired (1 of 1 node said that they still had it; node1: yes)`)
		l, err = r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.NoError(t, err)
		require.NoError(t, r.Close(t.Context()))
		require.EqualError(t, l.Unlock(t.Context()), `redlock: unlock ["a"]: the Redlock is closed; no quorum (0 of 1 node said yes, 1 needed; node1: the Redlock is closed)`)
		_, err = r.TryLock(t.Context(), []string{"a"}, time.Second)
		require.EqualError(t, err, `redlock: lock ["a"]: the Redlock is closed`)
	})
	late := &QuorumError{Op: OpLock, Resources: []string{"a"}, Need: 1, Votes: []Vote{{Node: "n"}}, reason: ErrNoQuorum}
	require.EqualError(t, late, `redlock: lock ["a"]: no quorum (1 of 1 node said yes, but the ttl was used up by then; n: yes)`)
	late.Op, late.reason = OpExtend, ErrExpired
	require.ErrorIs(t, late, ErrLost)
	require.EqualError(t, late, `redlock: extend ["a"]: lock expired (1 of 1 node said yes, but the lock had ended by then; n: yes)`)
}

// Whatever prints a Lock or a Redlock shows what is of use, and no token.
func TestTextsOfLocksAndRedlocks(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c, WithPrefix("p:"))
		require.Equal(t, "redlock over 3 nodes, quorum 2 (node1 not connected yet, node2 not connected yet, node3 not connected yet): 0 held, 0 waiting", fmt.Sprint(r))
		l, err := r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, c.Nodes[2].Stop())
		time.Sleep(time.Second)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			assert.Equal(t, `lock ["a"] (key "p:a"): held for another 8.898s`, fmt.Sprintf(verb, l), verb)
			assert.Equal(t, "redlock over 3 nodes, quorum 2 (node1 up, node2 up, node3 down): 1 held, 0 waiting", fmt.Sprintf(verb, r), verb)
		}
		require.NoError(t, l.Unlock(t.Context()))
		assert.Equal(t, `lock ["a"] (key "p:a"): released`, fmt.Sprint(l))
		l, err = r.TryLock(t.Context(), []string{"a"}, ttl)
		require.NoError(t, err)
		time.Sleep(ttl)
		assert.Equal(t, `lock ["a"] (key "p:a"): expired`, fmt.Sprint(l))
	})
	assert.Equal(t, plain(errNilLock), fmt.Sprint((*Lock)(nil)))
	assert.Equal(t, plain(errZeroRedlock), fmt.Sprint(new(Redlock)))
}

func TestErrorRetryAfter(t *testing.T) {
	held := func(d time.Duration) Vote { return Vote{Err: ErrTaken, Holder: "x", HolderTTL: d, stance: node.No} }
	silence := Vote{Err: ErrNodeTimeout}
	for name, k := range map[string]struct {
		want  time.Duration
		votes []Vote
	}{
		"one holder":              {3 * time.Second, []Vote{held(3 * time.Second), held(2 * time.Second), {Err: ErrPending, stance: node.Pending}, held(4 * time.Second), held(4 * time.Second)}},
		"no expiry":               {0, []Vote{held(-1), held(-1), held(-1), held(time.Second), held(time.Second)}},
		"one without expiry":      {time.Second, []Vote{held(-1), held(time.Second), held(time.Second), held(time.Second), held(time.Second)}},
		"nodes without an answer": {0, []Vote{silence, silence, silence, held(time.Second), held(time.Second)}},
		"quarantine":              {time.Minute, []Vote{silence, silence, held(time.Second), held(time.Second), {Err: ErrQuarantined, HolderTTL: time.Minute}}},
		"no votes":                {0, nil},
	} {
		e := &QuorumError{Op: OpLock, Need: 3, Votes: k.votes, reason: ErrTaken}
		assert.Equal(t, k.want, e.RetryAfter(), name)
		e.Op = OpExtend
		assert.Zero(t, e.RetryAfter(), name)
	}
	assert.Zero(t, (&QuorumError{}).RetryAfter())
}

// What a node says of the holder goes into errors and logs: no more than a digest, and what a terminal may show.
func TestErrorBoundsTheHolderThatANodeNames(t *testing.T) {
	for _, name := range []string{"x\n\x1b[31m", strings.Repeat("A", 1<<19), strings.Repeat("a", 13), "\xff"} {
		out := answers.Lock([]any{int64(5), []byte(name), []byte("")})
		assert.Equal(t, "n: held by ? for 5ms", asVote("n", &lease.Ballot{Err: out.Err, Holder: out.Holder, Stance: out.Stance}).String())
		out = inspectScript.Decode([]any{[]byte("v"), int64(5), []byte(name), []byte("")})
		assert.Equal(t, "?", out.Holder.Digest)
	}
	out := answers.Lock([]any{int64(5), []byte("0123456789ab"), []byte("")})
	assert.Equal(t, "0123456789ab", out.Holder.Digest)
	out = answers.Lock([]any{int64(5), []byte{}, []byte{}})
	assert.Equal(t, "n: left to another waiter for 5ms", asVote("n", &lease.Ballot{Err: out.Err, Holder: out.Holder, Stance: out.Stance}).String())
}
