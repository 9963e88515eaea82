package servers

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Somebody empties the servers' script caches all the time, so that a request's
// script is often unknown. Nobody may notice.
func TestScriptFlushInALoopIsNotNoticed(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	r := newPatient(t, nodesOf(c))
	end := time.Now().Add(scenario(2*time.Second, 500*time.Millisecond))
	var all sync.WaitGroup
	var flushes, cycles atomic.Int64
	for _, n := range c.Nodes {
		conn := adminConn(t, n)
		all.Go(func() {
			for time.Now().Before(end) {
				if _, err := conn.Do("SCRIPT", "FLUSH"); !assert.NoError(t, err) {
					return
				}
				flushes.Add(1)
			}
		})
	}
	for i := range 4 {
		all.Go(func() {
			for time.Now().Before(end) {
				l, err := r.TryLock(t.Context(), []string{fmt.Sprint("r", i), fmt.Sprint("s", i)}, time.Minute)
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, l.Extend(t.Context(), time.Minute))
				assert.NoError(t, l.Unlock(t.Context()))
				cycles.Add(1)
			}
		})
	}
	all.Wait()
	require.Positive(t, cycles.Load())
	took := awaitNoKeys(t, c, 30*time.Second)
	t.Logf("%d cycles among %d flushes; no key left %v later", cycles.Load(), flushes.Load(), took)
}
