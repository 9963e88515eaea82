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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// inBubble has a Redlock over n nodes, and its page.
func inBubble(
	t *testing.T, n int, fn func(t *testing.T, c *testcluster.Cluster, r *redlock.Redlock, h http.Handler),
) {
	t.Helper()
	testkit.InBubble(t, n, func(t *testing.T, c *testcluster.Cluster) {
		r := newRedlock(t, c)
		fn(t, c, r, redlockhttp.Handler(r))
	})
}

// newRedlock returns a Redlock over the cluster's nodes that ends with the test.
func newRedlock(t *testing.T, c *testcluster.Cluster, opts ...redlock.Option) *redlock.Redlock {
	t.Helper()
	r, err := redlock.New(testkit.NodesOf(c), opts...)
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
// locks with and without extensions and fences, one of them on a script, calls that wait, and a
// lock that was lost. It returns the tokens that must not be seen.
func busy(t *testing.T, c *testcluster.Cluster) (r *redlock.Redlock, tokens []string) {
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
	take(r, time.Hour, nil, "account:7", "account:12", "account:9", "account:31", "account:77", script)
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
		r, _ := busy(t, c)
		s := state(t, redlockhttp.Handler(r))
		assert.Equal(t, 3, s.Need)
		assert.Equal(t, 4, s.Up)
		require.Len(t, s.Nodes, 5)
		assert.Equal(t, "up", s.Nodes[0].State)
		assert.Equal(t, c.Nodes[0].Name(), s.Nodes[0].Name)
		assert.Equal(t, "down", s.Nodes[4].State)
		assert.NotEmpty(t, s.Nodes[4].Error)
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
		report, invoice := byName["nightly-report"], byName["invoice:2026-11-4711"]
		assert.True(t, report.Kept && report.Fence > 0 && !invoice.Kept && invoice.Fence == 0)
		assert.WithinDuration(t, invoice.Since.Add(90*time.Second), invoice.Until, time.Second)

		require.Len(t, s.Waiting, 2)
		for _, w := range s.Waiting {
			assert.Equal(t, []string{"mail-queue"}, w.Resources)
			assert.Equal(t, "taken", w.Reason)
			assert.Equal(t, "billing-2b1d/17", w.HolderOwner)
		}
		assert.ElementsMatch(t, []string{"", "sender"}, []string{s.Waiting[0].Owner, s.Waiting[1].Owner})
		assert.ElementsMatch(t, []int{1, 2}, []int{s.Waiting[0].Position, s.Waiting[1].Position})

		n := s.Counts
		assert.Equal(t, []int64{3, 1, 2, 4, 1}, []int64{int64(n.Held), int64(n.Kept), int64(n.Waiting), n.Acquired, n.Lost})
		kinds := map[string]string{}
		for i, e := range s.Events {
			kinds[e.Kind] = e.Level
			assert.True(t, i == 0 || !e.Time.After(s.Events[i-1].Time), "the latest first")
		}
		assert.Equal(t, map[string]string{"node up": "info", "node down": "warning", "keys vanished": "warning", "extended": "warning"}, kinds)
	})
}

// Whatever the page shows, a token would let its reader release the lock. Names do not become markup.
func TestNoTokenAndNoMarkup(t *testing.T) {
	c := testcluster.RunEmbedded(t, 3)
	r, tokens := busy(t, c)
	h := redlockhttp.Handler(r)
	for _, path := range []string{"/", "/?format=json"} {
		_, body := get(t, h, http.MethodGet, path)
		for _, token := range tokens {
			assert.NotContains(t, body, token)
		}
	}
	res, body := get(t, h, http.MethodGet, "/")
	assert.NotContains(t, body, script)
	assert.Equal(t, 1, strings.Count(body, "<script"))
	assert.NotContains(t, body, "innerHTML")
	assert.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'")

	const secret = "s3cret-passw0rd"
	secured := testkit.NewOver(t, []redlock.Node{redlock.NewNode("redis://user:" + secret + "@127.0.0.1:1/3")}, redlock.WithoutLog())
	_, err := secured.TryLock(t.Context(), []string{"x"}, time.Second)
	require.Error(t, err)
	for _, h := range []http.Handler{redlockhttp.Handler(secured), redlockhttp.Ready(secured)} {
		_, body := get(t, h, http.MethodGet, "/?format=json")
		assert.Contains(t, body, "127.0.0.1:1/3")
		assert.NotContains(t, body, secret)
	}
}

// A look changes nothing, and loads nothing from elsewhere.
func TestOnlyLooking(t *testing.T) {
	r := newRedlock(t, testcluster.RunEmbedded(t, 1))
	h := redlockhttp.Handler(r)
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodOptions} {
		res, _ := get(t, h, method, "/")
		assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, method)
		assert.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
	}
	for _, c := range []struct{ path, accept, want string }{
		{"/debug/redlock/", "text/html,application/json;q=0.9,*/*;q=0.8", "text/html; charset=utf-8"},
		{"/", "*/*", "text/html; charset=utf-8"},
		{"/", "application/json", "application/json"},
		{"/?format=json", "text/html", "application/json"},
		{"/?format=html", "application/json", "text/html; charset=utf-8"},
	} {
		res, body := get(t, h, http.MethodGet, c.path, "Accept", c.accept)
		assert.Equal(t, c.want, res.Header.Get("Content-Type"), "%+v", c)
		assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		assert.Equal(t, c.want == "application/json", json.Valid([]byte(body)))
		assert.Contains(t, body, `"connecting"`, "a Redlock that nobody has used yet: the page has its data from the start")
		if c.want != "application/json" {
			for _, from := range []string{"http://", "https://", "src=", "@import", "url("} {
				assert.NotContains(t, body, from)
			}
			assert.Less(t, len(body), 32<<10)
		}
		res, empty := get(t, h, http.MethodHead, c.path, "Accept", c.accept)
		assert.Empty(t, empty)
		assert.Equal(t, c.want, res.Header.Get("Content-Type"))
	}
	assert.Zero(t, r.Stats().Nodes[0].Connects, "a look is no I/O")
}

// A filter and an order are applied before the list is cut: a page that renews itself each second must stay light.
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
		for i := range 600 {
			testkit.TryLock(t, r, []string{fmt.Sprint(i)}, time.Hour)
		}
		s := state(t, redlockhttp.Handler(r))
		assert.Len(t, s.Held, 500)
		assert.Equal(t, 603, s.Counts.Held)
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
		assert.Equal(t, []int{20, 2000, 20, 2000}, []int{len(s.Held[0].Resources), s.Held[0].Names, len(s.Waiting[0].Resources), s.Waiting[0].Names})
		assert.Equal(t, "ü"+strings.Repeat("é", 125)+"…", s.Held[1].Resources[0])
		cancel()
		_ = r.Release(t.Context(), l.Resources(), l.Token())
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), redlock.ErrLost)
		assert.Len(t, state(t, h).Events[0].Resources, 20)
		_, body := get(t, h, http.MethodGet, "/")
		assert.Less(t, len(body), 128<<10)
	})
}

func TestHandlerAfterClose(t *testing.T) {
	used := newRedlock(t, testcluster.RunEmbedded(t, 1))
	testkit.TryLock(t, used, []string{"x"}, time.Second)
	require.NoError(t, used.Close(t.Context()))
	assert.Equal(t, "closed", state(t, redlockhttp.Handler(used)).Nodes[0].State)
	assert.Panics(t, func() { redlockhttp.Handler(nil) })
}

// permits has a Redlock hold all permits of a semaphore, wait for one more of another one, and hold locks on more
// resources, whatever their names.
func permits(t *testing.T, resources ...[]string) *redlock.Redlock {
	t.Helper()
	c := testcluster.RunEmbedded(t, 1)
	r, other := newRedlock(t, c, redlock.WithNodeTimeout(5*time.Second)), newRedlock(t, c)
	for i := range 12 {
		resources = append(resources, []string{fmt.Sprint("resize#", i)})
	}
	for i, names := range resources {
		testkit.TryLock(t, r, names, 2*time.Hour-time.Duration(i)*time.Minute)
	}
	for _, slot := range semaphore.Slots("api", 3) {
		testkit.TryLock(t, other, []string{slot}, time.Hour)
	}
	waits, err := semaphore.New(r, "api", 3, time.Hour)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = waits.Acquire(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	require.Eventually(t, func() bool { return len(r.WaitingCalls()) == 3 }, 30*time.Second, time.Millisecond)
	return r
}

// A slot is that of its number, up to the largest one. No other lock is one, whatever it is named.
func TestSlots(t *testing.T) {
	r := permits(t, []string{"resize#255"}, []string{"resize#256"}, []string{"resize#03"}, []string{"resize"}, []string{"resize#13", "x"}, []string{"mine#1"})
	s := state(t, redlockhttp.Handler(r, redlockhttp.WithSemaphores("resize", "api")))
	require.Len(t, s.Held, 18)
	held, waiting := map[int]bool{}, map[int]bool{}
	for _, l := range s.Held {
		if assert.Equal(t, l.Slot != nil, l.Semaphore == "resize") && l.Slot != nil {
			assert.Equal(t, fmt.Sprint("resize#", *l.Slot), l.Resources[0])
			held[*l.Slot] = true
		}
	}
	assert.Len(t, held, 13)
	assert.True(t, held[0] && held[255])
	for _, w := range s.Waiting {
		assert.Equal(t, "api", w.Semaphore)
		waiting[*w.Slot] = true
	}
	assert.Equal(t, map[int]bool{0: true, 1: true, 2: true}, waiting)
	_, body := get(t, redlockhttp.Handler(r), http.MethodGet, "/?format=json")
	assert.NotContains(t, body, `"semaphore"`, "none is known")
	assert.Panics(t, func() { redlockhttp.Handler(r, nil) })
}

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
		res, _ := get(t, h, http.MethodPost, "/readyz")
		assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode)
		assert.Equal(t, "GET, HEAD", res.Header.Get("Allow"))
		_ = r.Close(t.Context())
		answers(http.StatusServiceUnavailable, "closed")
	})
	assert.Panics(t, func() { redlockhttp.Ready(nil) })
}
