package waiting

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func waiter(keys ...any) *Waiter { return NewWaiter(keys, time.Minute, time.Now(), func() {}) }

// What a waiter was told of goes with the lock that it gets: the next one here keeps no place for it,
// and tells nobody of it.
func TestQueueForgetsWhatAWaiterWasToldOfWhenItGetsTheLock(t *testing.T) {
	q, now := NewQueue(3, 2, rand.N), time.Now()
	first, next := waiter("x"), waiter("x", "y")
	q.Join(first, now)
	q.Join(next, now)
	q.Begin(first, true)
	for i := range 2 {
		q.Hear(i, "x", "D", now)
	}
	q.Leave(first, true, now)
	require.True(t, q.State(next).Head)
	q.Begin(next, true)
	q.Refused(next, errors.New("taken"), "holder", now)
	assert.Zero(t, q.State(next).KeepUntil)
	q.Leave(next, false, now)
	var want []Pass // It leaves the lines of two resources on three nodes.
	for _, key := range []string{"x", "y"} {
		for i := range 3 {
			want = append(want, Pass{Node: i, Key: key, Leave: true})
		}
	}
	assert.Equal(t, want, q.Passes())
}

// What a slow node tells of a release is old news, unless others have told of the same one. Where nobody waits, it is told
// that this process leaves.
func TestQueueHearsASlowNodeOnlyBesideOthers(t *testing.T) {
	q, now := NewQueue(3, 2, rand.N), time.Now()
	q.HearLate(0, "x", "A", now)
	assert.Equal(t, []Pass{{Key: "x", Digest: "A", Leave: true}}, q.Passes())
	w := waiter("x")
	q.Join(w, now)
	q.Begin(w, false)
	q.HearLate(0, "x", "A", now)
	assert.True(t, q.State(w).TryAt.IsZero())
	q.Hear(1, "x", "B", now)
	soon := q.State(w).TryAt
	require.False(t, soon.IsZero())
	q.HearLate(0, "x", "B", now)
	assert.True(t, q.State(w).TryAt.Before(soon), "no more are waited for")
	assert.Empty(t, q.Passes())
}

// A waiter that leaves before it has asked may have heard of a release that was meant for one before it: the next is told.
func TestQueueTellsTheNextOfWhatWasMeantForOneThatHasLeft(t *testing.T) {
	q, now := NewQueue(1, 1, rand.N), time.Now()
	w := waiter("x")
	q.Join(w, now)
	q.Hear(0, "x", "A", now)
	q.Leave(w, false, now)
	assert.Equal(t, []Pass{{Key: "x", Digest: "A", Leave: true}}, q.Passes())
}

// Between the look whether somebody listens and the attempt, a head may be told that it can get in line now.
func TestQueueDoesNotForgetThatAHeadCanGetInLine(t *testing.T) {
	q, now := NewQueue(1, 1, rand.N), time.Now()
	w := waiter("x")
	q.Join(w, now)
	q.Listening()
	q.Begin(w, false)
	assert.True(t, q.State(w).Now)
	q.Begin(w, true)
	assert.False(t, q.State(w).Now)
}

// Whoever has left, by a pass or because it gave up, is not kept until the end of a turn, which may be minutes away.
func TestTurnForgetsThoseThatHaveLeft(t *testing.T) {
	for name, passes := range map[string]bool{"passed": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			q, now, keys := NewQueue(3, 2, func(time.Duration) time.Duration { return 0 }), time.Now(), []any{"x"}
			turn := q.BeginTurn(keys, now.Add(time.Hour), now)
			join := func() *Waiter {
				w := NewWaiter(keys, time.Second, now, func() {})
				w.Caller = w
				_, rests := q.JoinBehind(w)
				require.True(t, rests)
				return w
			}
			q.Leave(join(), false, now) // The first one gives up.
			stays := join()
			for range 1000 {
				if w := join(); passes {
					q.Pass(turn, q.Next(turn, now), turn, now)
					stays = w
				} else {
					q.Leave(w, false, now)
				}
			}
			assert.Less(t, len(turn.resting), 10)
			assert.Contains(t, turn.resting, stays, "who waits is notified at the end")
		})
	}
}

// A hunt is a Search with what is asked for.
type hunt struct {
	*Search

	asked map[int]bool
	order []int
}

// ask has more calls want a slot, and looks at which.
func (h *hunt) ask(t *testing.T, n int) {
	t.Helper()
	var want []int
	for _, slot := range h.order {
		if !h.asked[slot] && len(want) < n {
			want = append(want, slot)
		}
	}
	require.Equal(t, want, h.Ask(n, h.order))
	for _, slot := range want {
		h.asked[slot] = true
	}
}

// Whatever has ended before, every slot is asked for in the end, none twice at a time, and few at first.
func TestSearchComesToEverySlot(t *testing.T) {
	for slots := 1; slots <= 40; slots++ {
		for callers := 1; callers <= min(slots, 7); callers++ {
			for ended := 0; ended <= callers; ended++ {
				h := &hunt{Search: NewSearch(slots), asked: map[int]bool{}}
				for slot := range slots {
					h.order = append(h.order, slots-1-slot)
				}
				h.ask(t, callers)
				for _, slot := range h.order[:ended] {
					h.Done(slot)
					delete(h.asked, slot)
				}
				for range 10 {
					n := h.Refused()
					require.Equal(t, len(h.asked) < eager, n > 0, "asked for %d of %d", len(h.asked), slots)
					require.LessOrEqual(t, n, 2)
					h.ask(t, n)
				}
				for range 4 { // 40 is less than 3⁴.
					n := h.Widen()
					require.Equal(t, len(h.asked) < slots, n > 0, "asked for %d of %d", len(h.asked), slots)
					require.LessOrEqual(t, n, 2*len(h.asked))
					h.ask(t, n)
				}
				require.Len(t, h.asked, slots)
			}
		}
	}
}

// The slots of the own process come last: whoever waits there comes after it.
func TestSearchOrder(t *testing.T) {
	require.Equal(t, []int{4, 2, 0, 3, 1}, Order([]int{4, 3, 2, 1, 0}, func(slot int) bool { return slot%2 == 1 }))
}

// A guess that was too early, as two of five nodes had not been waited for and a third had a
// short reservation, does not make the next one late, which is made of what all say.
func TestTimerMakesGoodAGuessThatCameTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := timerOf(t)
		ends := time.Now().Add(870 * time.Millisecond)
		timer.Expect(ByHead, Refusal{Holder: "h", Left: time.Until(ends), Free: 100 * time.Millisecond, Known: true}, time.Now())
		requireExpiry(t, timer, 100*time.Millisecond)
		time.Sleep(time.Until(timer.expiry))
		left := time.Until(ends)
		timer.Expect(ByExpiry, Refusal{Holder: "h", Left: left, Free: left, Known: true}, time.Now())
		requireExpiry(t, timer, left)
	})
}

// A holder that is extended again and again is asked after less and less often, until a timed
// retry has asked, or there is another holder.
func TestTimerAsksLessOftenAfterAHolderThatIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := timerOf(t)
		kept := func(why Reason, holder string, times time.Duration) {
			t.Helper()
			timer.Expect(why, Refusal{Holder: holder, Left: 100 * time.Millisecond, Free: 100 * time.Millisecond, Known: true}, time.Now())
			wait := time.Until(timer.expiry)
			assert.GreaterOrEqual(t, wait, times*(100*time.Millisecond+expiryMargin))
			assert.LessOrEqual(t, wait, times*(100*time.Millisecond+3*expiryMargin))
			time.Sleep(wait)
		}
		kept(ByHead, "h", 1)
		kept(ByExpiry, "h", 2)
		kept(ByExpiry, "h", 4)
		kept(ByExpiry, "other", 1)
		kept(ByExpiry, "other", 2)
		kept(ByTick, "other", 1)
		kept(ByExpiry, "other", 2)
	})
}

func timerOf(t *testing.T) *Timer {
	t.Helper()
	q, w := NewQueue(5, 3, rand.N), waiter("x")
	q.Join(w, time.Now())
	return NewTimer(w, Pace{MaxWait: time.Minute}, rand.N)
}

// requireExpiry checks that the holder's keys are awaited to expire in free.
func requireExpiry(t *testing.T, timer *Timer, free time.Duration) {
	t.Helper()
	wait := time.Until(timer.expiry)
	assert.GreaterOrEqual(t, wait, free+expiryMargin)
	assert.LessOrEqual(t, wait, free+3*expiryMargin)
}

// One reservation after another is no holder that is extended: whoever it is for may hang each time.
func TestTimerAsksAtTheEndOfEachReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := timerOf(t)
		for _, why := range []Reason{ByHead, ByExpiry, ByExpiry, ByExpiry} {
			timer.Expect(why, Refusal{Left: ReservedFor, Free: ReservedFor, Known: true}, time.Now())
			requireExpiry(t, timer, ReservedFor)
			time.Sleep(time.Until(timer.expiry))
		}
	})
}
