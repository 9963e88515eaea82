package redlockhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
	"github.com/seed6c881748/redlock/test/testkit"
)

// get asks the handler, and returns what it answers.
func get(t *testing.T, h http.Handler, method, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(body)
}

func state(t *testing.T, h http.Handler) (s redlockhttp.State) {
	t.Helper()
	res, body := get(t, h, http.MethodGet, "/?format=json")
	require.Equal(t, http.StatusOK, res.StatusCode)
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	return s
}

func TestStateHasWhatIsGoingOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.RunBubble(t, 5)
		r, _ := busy(t, c, script)
		s := state(t, redlockhttp.Handler(r))
		assert.Equal(t, 3, s.Need)
		assert.Equal(t, 4, s.Up)
		require.Len(t, s.Nodes, 5)
		assert.Equal(t, "up", s.Nodes[0].State)
		assert.Equal(t, c.Nodes[0].Name(), s.Nodes[0].Name)
		assert.Equal(t, "down", s.Nodes[4].State)
		assert.NotEmpty(t, s.Nodes[4].Error)
		assert.Empty(t, s.Nodes[0].Error)
		assert.Positive(t, s.Nodes[0].Votes.Yes)
		assert.Positive(t, s.Nodes[0].Votes.Taken)

		require.Len(t, s.Held, 3)
		byName := map[string]redlockhttp.Lock{}
		for _, l := range s.Held {
			byName[l.Resources[0]] = l
			assert.InDelta(t, l.Until.Sub(s.Time).Seconds()*1000, l.Left, 1)
			assert.Equal(t, "billing-7f9c/42", l.Owner)
			assert.NotEmpty(t, l.Holder)
		}
		assert.True(t, byName["nightly-report"].Kept)
		assert.Positive(t, byName["nightly-report"].Fence)
		invoice := byName["invoice:2026-11-4711"]
		assert.False(t, invoice.Kept)
		assert.Zero(t, invoice.Fence)
		assert.WithinDuration(t, invoice.Since.Add(90*time.Second), invoice.Until, time.Second)

		require.Len(t, s.Waiting, 2)
		for _, w := range s.Waiting {
			assert.Equal(t, []string{"mail-queue"}, w.Resources)
			assert.Equal(t, "taken", w.Reason)
			assert.Equal(t, "billing-2b1d/17", w.HolderOwner)
		}
		assert.ElementsMatch(t, []string{"", "sender"}, []string{s.Waiting[0].Owner, s.Waiting[1].Owner})
		assert.ElementsMatch(t, []int{1, 2}, []int{s.Waiting[0].Position, s.Waiting[1].Position})

		assert.Equal(t, redlockhttp.Counts{Held: 3, Kept: 1, Waiting: 2, Acquired: 4, Lost: 1}, redlockhttp.Counts{
			Held: s.Counts.Held, Kept: s.Counts.Kept, Waiting: s.Counts.Waiting, Acquired: s.Counts.Acquired, Lost: s.Counts.Lost,
		})
		kinds := map[string]string{}
		for i, e := range s.Events {
			kinds[e.Kind] = e.Level
			assert.True(t, i == 0 || !e.Time.After(s.Events[i-1].Time), "the latest first")
		}
		assert.Equal(t, map[string]string{"node up": "info", "node down": "warning", "keys vanished": "warning", "extended": "warning"}, kinds)
	})
}

// Whatever the page shows, a token would let its reader release the lock.
func TestNoTokenAndNoPassword(t *testing.T) {
	c := testcluster.RunEmbedded(t, 3)
	r, tokens := busy(t, c, script)
	h := redlockhttp.Handler(r)
	for _, path := range []string{"/", "/?format=json"} {
		_, body := get(t, h, http.MethodGet, path)
		for _, token := range tokens {
			assert.NotContains(t, body, token)
		}
	}
	const secret = "s3cret-passw0rd"
	secured, err := redlock.New([]redlock.Node{redlock.NewNode("redis://user:"+secret+"@127.0.0.1:1/3", redis.DialPassword(secret))})
	if err != nil {
		secured, err = redlock.New([]redlock.Node{redlock.NewNode("127.0.0.1:1", redis.DialUsername("user"), redis.DialPassword(secret))})
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = secured.Close(t.Context()) })
	_, err = secured.TryLock(t.Context(), []string{"x"}, time.Second)
	require.Error(t, err)
	_, body := get(t, redlockhttp.Handler(secured), http.MethodGet, "/?format=json")
	assert.Contains(t, body, `"down"`)
	assert.NotContains(t, body, secret)
}

func TestNamesCannotBecomeMarkup(t *testing.T) {
	r, _ := busy(t, testcluster.RunEmbedded(t, 3), script)
	res, body := get(t, redlockhttp.Handler(r), http.MethodGet, "/")
	assert.NotContains(t, body, script)
	assert.Equal(t, 1, strings.Count(body, "<script"))
	assert.Equal(t, 1, strings.Count(body, "</script"))
	assert.NotContains(t, body, "innerHTML")
	assert.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")
}

func TestPageIsSelfContained(t *testing.T) {
	r := newRedlock(t, testcluster.RunEmbedded(t, 1))
	res, body := get(t, redlockhttp.Handler(r), http.MethodGet, "/debug/redlock/", "Accept", "text/html,application/json;q=0.9,*/*;q=0.8")
	assert.Equal(t, "text/html; charset=utf-8", res.Header.Get("Content-Type"))
	for _, from := range []string{"http://", "https://", "src=", "@import", "url("} {
		assert.NotContains(t, body, from)
	}
	assert.NotContains(t, body, "/*DATA*/null", "it has its data from the start")
	assert.Contains(t, body, `"connecting"`, "a Redlock that nobody has used yet")
	assert.Less(t, len(body), 32<<10)
}

func TestOnlyLooking(t *testing.T) {
	r := newRedlock(t, testcluster.RunEmbedded(t, 1))
	h := redlockhttp.Handler(r)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		res, _ := get(t, h, method, "/")
		assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, method)
		assert.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
	}
	for _, path := range []string{"/", "/?format=json"} {
		full, body := get(t, h, http.MethodGet, path)
		res, empty := get(t, h, http.MethodHead, path)
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Empty(t, empty)
		assert.Equal(t, full.Header.Get("Content-Type"), res.Header.Get("Content-Type"))
		assert.NotEmpty(t, body)
		assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	}
	assert.Zero(t, r.Stats().Nodes[0].Connects, "a look is no I/O")
}

func TestJSONForWhoAcceptsIt(t *testing.T) {
	h := redlockhttp.Handler(newRedlock(t, testcluster.RunEmbedded(t, 1)))
	for _, c := range []struct{ path, accept, want string }{
		{"/", "", "text/html; charset=utf-8"},
		{"/", "*/*", "text/html; charset=utf-8"},
		{"/", "application/json", "application/json"},
		{"/", "text/html, application/json", "text/html; charset=utf-8"},
		{"/?format=json", "text/html", "application/json"},
		{"/?format=html", "application/json", "text/html; charset=utf-8"},
	} {
		res, body := get(t, h, http.MethodGet, c.path, "Accept", c.accept)
		assert.Equal(t, c.want, res.Header.Get("Content-Type"), "%+v", c)
		assert.Equal(t, c.want == "application/json", json.Valid([]byte(body)))
	}
}

// A page that renews itself each second must stay light.
func TestManyLocksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRedlock(t, testcluster.RunBubble(t, 1))
		for i := range 600 {
			testkit.TryLock(t, r, []string{"r" + string(rune('a'+i%26)) + time.Duration(i).String()}, time.Hour)
		}
		s := state(t, redlockhttp.Handler(r))
		assert.Len(t, s.Held, 500)
		assert.Equal(t, 600, s.Counts.Held)
	})
}

// A filter and an order are applied before the list is cut.
func TestTheListsCanBeFilteredAndSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRedlock(t, testcluster.RunBubble(t, 1), redlock.WithRetryCount(-1))
		var b *redlock.Lock
		for _, l := range []struct {
			name string
			ttl  time.Duration
		}{{"b", time.Hour}, {"c", time.Minute}, {"a", 2 * time.Hour}} {
			got := testkit.TryLock(t, r, []string{l.name}, l.ttl, redlock.WithOwner("owner-"+l.name))
			if l.name == "b" {
				b = got
			}
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = r.Lock(ctx, []string{"a"}, time.Hour) }()
		time.Sleep(time.Second)
		for query, want := range map[string]string{
			"": "cba", "&sort=oldest": "bca", "&sort=name": "abc", "&filter=owner-b": "b", "&filter=" + b.Holder(): "b", "&filter=er-a&sort=name": "a", "&filter=none": "",
		} {
			_, body := get(t, redlockhttp.Handler(r), http.MethodGet, "/?format=json"+query)
			var s redlockhttp.State
			require.NoError(t, json.Unmarshal([]byte(body), &s))
			names := ""
			for _, l := range s.Held {
				names += l.Resources[0]
			}
			assert.Equal(t, want, names, query)
			assert.Len(t, s.Held, s.HeldMatching)
			assert.Len(t, s.Waiting, s.WaitingMatching)
			assert.Equal(t, 3, s.Counts.Held)
		}
		cancel()
	})
}

// The names of one lock, or one event, are bounded as well.
func TestManyNamesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRedlock(t, testcluster.RunBubble(t, 1), redlock.WithRetryCount(-1))
		var names []string
		for i := range 2000 {
			names = append(names, fmt.Sprintf("%s/%04d", strings.Repeat("n", 220), i))
		}
		l := testkit.TryLock(t, r, names, time.Hour)
		testkit.TryLock(t, r, []string{"ü" + strings.Repeat("é", 1<<17)}, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = r.Lock(ctx, names, time.Hour) }()
		synctest.Wait()
		h := redlockhttp.Handler(r)
		s := state(t, h)
		require.Len(t, s.Held, 2)
		assert.Len(t, s.Held[0].Resources, 20)
		assert.Equal(t, 2000, s.Held[0].Names)
		assert.Equal(t, "ü"+strings.Repeat("é", 125)+"…", s.Held[1].Resources[0])
		require.Len(t, s.Waiting, 1)
		assert.Len(t, s.Waiting[0].Resources, 20)
		assert.Equal(t, 2000, s.Waiting[0].Names)
		cancel()
		_ = r.Release(t.Context(), l.Resources(), l.Token())
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrLost)
		s = state(t, h)
		require.NotEmpty(t, s.Events)
		assert.Len(t, s.Events[0].Resources, 20)
		for _, path := range []string{"/", "/?format=json"} {
			_, body := get(t, h, http.MethodGet, path)
			assert.Less(t, len(body), 128<<10)
		}
	})
}

func TestHandlerAfterClose(t *testing.T) {
	r := newRedlock(t, testcluster.RunEmbedded(t, 1))
	require.NoError(t, r.Close(t.Context()))
	s := state(t, redlockhttp.Handler(r))
	assert.Empty(t, s.Held)
	assert.NotEqual(t, "down", s.Nodes[0].State, "nobody has needed it")
	used := newRedlock(t, testcluster.RunEmbedded(t, 1))
	testkit.TryLock(t, used, []string{"x"}, time.Second)
	require.NoError(t, used.Close(t.Context()))
	assert.Equal(t, "closed", state(t, redlockhttp.Handler(used)).Nodes[0].State)
	assert.Panics(t, func() { redlockhttp.Handler(nil) })
}
