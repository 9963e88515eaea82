package redlockhttp_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
)

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.RunBubble(t, 3)
		r := newRedlock(t, c)
		h := redlockhttp.Ready(r)
		answers := func(status int, has ...string) {
			t.Helper()
			res, body := get(t, h, http.MethodGet, "/readyz")
			assert.Equal(t, status, res.StatusCode)
			assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
			assert.Equal(t, "text/plain; charset=utf-8", res.Header.Get("Content-Type"))
			for _, text := range has {
				assert.Contains(t, body, text)
			}
			res, body = get(t, h, http.MethodHead, "/readyz")
			assert.Equal(t, status, res.StatusCode)
			assert.Empty(t, body)
		}
		answers(http.StatusOK, "ready\n") // Nobody has needed a node before.
		synctest.Wait()
		require.NoError(t, c.Nodes[2].Stop())
		time.Sleep(3 * time.Second)
		answers(http.StatusOK, "ready\nnode3 is down: not connected: ")
		require.NoError(t, c.Nodes[1].Stop())
		time.Sleep(3 * time.Second)
		answers(http.StatusServiceUnavailable, "redlock: not ready: 1 of 3 nodes would vote, 2 needed (node2: not connected: ", "; node3: not")
		for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut} {
			res, _ := get(t, h, method, "/readyz")
			assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
			assert.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
		}
		_ = r.Close(t.Context())
		answers(http.StatusServiceUnavailable, "closed")
	})
	assert.Panics(t, func() { redlockhttp.Ready(nil) })
}

func TestReadyInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.RunBubble(t, 3)
		h := redlockhttp.Ready(newRedlock(t, c, redlock.WithQuarantine(30*time.Second)))
		_, _ = get(t, h, http.MethodGet, "/")
		synctest.Wait() // All are connected.
		res, body := get(t, h, http.MethodGet, "/")
		assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
		assert.Contains(t, body, "node1: quarantined for another 31s")
		time.Sleep(31 * time.Second)
		res, _ = get(t, h, http.MethodGet, "/")
		assert.Equal(t, http.StatusOK, res.StatusCode)
	})
}

func TestReadyShowsNoPassword(t *testing.T) {
	const secret = "s3cret-passw0rd"
	r, err := redlock.New([]redlock.Node{redlock.NewNode("redis://user:" + secret + "@127.0.0.1:1/3")}, redlock.WithoutLog())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close(t.Context()) })
	res, body := get(t, redlockhttp.Ready(r), http.MethodGet, "/")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Contains(t, body, "127.0.0.1:1/3: ")
	assert.NotContains(t, body, secret)
}
