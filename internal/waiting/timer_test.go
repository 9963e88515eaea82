package waiting

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

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
