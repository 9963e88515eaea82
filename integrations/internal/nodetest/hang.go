package nodetest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// Hang runs a test in bubbles, with two Redlocks on three nodes. hang has one or two of these hang, for so long already
// that everybody knows; two are an outage, which must not look like a lock that somebody else has.
func Hang(t *testing.T, test func(t *testing.T, holder, other *redlock.Redlock, hang func(), outage bool)) {
	t.Helper()
	for _, hung := range []int{1, 2} {
		t.Run(fmt.Sprint(hung, " of 3 hang"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := testcluster.RunBubble(t, 3)
				holder, other := testkit.NewWarm(t, c), testkit.NewWarm(t, c)
				hang := func() {
					for _, n := range c.Nodes[3-hung:] {
						require.NoError(t, n.Hang())
						t.Cleanup(func() { _ = n.Resume() })
					}
					for range 10 {
						_, _ = other.TryLock(t.Context(), []string{"known"}, 10*time.Millisecond)
						time.Sleep(time.Second)
					}
				}
				test(t, holder, other, hang, hung == 2)
			})
		})
	}
}

// Busy is the error of a call that cannot have a lock: redlock.ErrTaken, or redlock.ErrNoQuorum in an outage.
func Busy(outage bool) (want, not error) {
	if outage {
		return redlock.ErrNoQuorum, redlock.ErrTaken
	}
	return redlock.ErrTaken, redlock.ErrNoQuorum
}
