package redlockhttp_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/test/testkit"
)

// permits has a Redlock hold all permits of two semaphores, wait for one more of the second, and hold locks
// whose names are as those of slots.
func permits(t *testing.T) *redlock.Redlock {
	t.Helper()
	c := testcluster.RunEmbedded(t, 1)
	r, other := newRedlock(t, c), newRedlock(t, c)
	for _, s := range []struct {
		r    *redlock.Redlock
		name string
		k    int
	}{{r, "resize", 12}, {other, "api", 3}} {
		sem, err := semaphore.New(s.r, s.name, s.k, time.Hour)
		require.NoError(t, err)
		for range s.k {
			_, err = sem.TryAcquire(t.Context())
			require.NoError(t, err)
		}
	}
	for _, name := range []string{"resize#x", "mine#1"} {
		testkit.TryLock(t, r, []string{name}, 2*time.Hour)
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

func TestPermitsOfSemaphores(t *testing.T) {
	r := permits(t)
	s := state(t, redlockhttp.Handler(r, redlockhttp.WithSemaphores("resize", "api")))
	held, waiting := map[int]bool{}, map[int]bool{}
	for _, l := range s.Held {
		if l.Slot == nil {
			assert.Contains(t, []string{"resize#x", "mine#1"}, l.Resources[0])
			assert.Empty(t, l.Semaphore)
			continue
		}
		assert.Equal(t, "resize", l.Semaphore)
		held[*l.Slot] = true
	}
	assert.Len(t, held, 12)
	for _, w := range s.Waiting {
		assert.Equal(t, "api", w.Semaphore)
		waiting[*w.Slot] = true
	}
	assert.Equal(t, map[int]bool{0: true, 1: true, 2: true}, waiting)
	_, body := get(t, redlockhttp.Handler(r), http.MethodGet, "/?format=json")
	assert.NotContains(t, body, `"semaphore"`, "none is known")
	assert.Panics(t, func() { redlockhttp.Handler(r, nil) })
}

// A slot is that of its number, up to the largest one. No other lock is one, whatever it is named.
func TestSlots(t *testing.T) {
	r := newRedlock(t, testcluster.RunEmbedded(t, 1), redlock.WithNodeTimeout(5*time.Second))
	want := map[string]int{"api#0": 0, "api#7": 7, "api#255": 255}
	for _, resources := range [][]string{{"api#0"}, {"api#7"}, {"api#255"}, {"api#256"}, {"api#03"}, {"api"}, {"api#1", "x"}} {
		testkit.TryLock(t, r, resources, time.Hour)
	}
	s := state(t, redlockhttp.Handler(r, redlockhttp.WithSemaphores("api")))
	require.Len(t, s.Held, 7)
	got := map[string]int{}
	for _, l := range s.Held {
		if l.Slot != nil {
			got[l.Resources[0]] = *l.Slot
		}
	}
	assert.Equal(t, want, got)
}

// groups says what the rows are, of locks and of calls that wait.
const groups = `<!DOCTYPE html><body>
<iframe src="/page/" style="width: 390px; height: 740px"></iframe>
<script>
onload = () => setTimeout(() => {
	const d = document.querySelector("iframe").contentDocument, root = d.documentElement;
	const row = e => [...e.querySelectorAll(":scope > .top > span, :scope > .permit > .top > .name, :scope > .meta")].filter(s => s.className !== "left").map(s => s.textContent).join(" / ");
	const p = document.createElement("p");
	p.textContent = [root.scrollWidth - root.clientWidth, d.getElementById("held-n").textContent, d.querySelectorAll("#held .permit .bar i").length,
		...[...d.querySelectorAll("#waiting > div, #held > div:first-child")].map(row), d.querySelectorAll("#held > div").length].join(" | ");
	document.body.append(p);
}, 2500);
</script>`

func TestPermitsOnThePage(t *testing.T) {
	page := redlockhttp.Handler(permits(t), redlockhttp.WithSemaphores("resize", "api"))
	assert.Regexp(t, `^0 \| 14 \| 10 \| api / for a permit, on 3 slots: 0, 1, 2 \| resize / 12 permits / (slot \d+ / ){10}2 more: filter by resize#… \| 3$`,
		look(t, groups, page))
}
