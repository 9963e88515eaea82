package shared_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
	"github.com/seed6c881748/redlock/redlock/shared"
	"github.com/seed6c881748/redlock/test/testkit"
)

// What docs/shared.md says of servers' processors is measured by go test -run '^$' -bench . ./redlock/shared.
func BenchmarkServers(b *testing.B) {
	c, err := testcluster.StartServers(5)
	require.NoError(b, err)
	b.Cleanup(func() { _ = c.Close() })
	r := testkit.NewOver(b, testkit.ServerNodes(c), redlock.WithNodeTimeout(testkit.Patient))
	lock := func(resources []string, opts ...redlock.Option) func(*testing.B) {
		return func(b *testing.B) {
			l, no := r.TryLock(b.Context(), resources, testkit.TTL, opts...)
			require.NoError(b, no)
			require.NoError(b, l.Unlock(b.Context()))
		}
	}
	measure(b, c, "plain", lock([]string{"plain"}))
	measure(b, c, "plain, fence", lock([]string{"fenced"}, redlock.WithFencing()))
	for _, k := range []int{16, 32, 64} {
		measure(b, c, fmt.Sprint("slots ", k), lock(semaphore.Slots("slots", k)))
		measure(b, c, fmt.Sprint("slots ", k, ", fence"), lock(semaphore.Slots("fenced", k), redlock.WithFencing()))
	}
	m, err := shared.New(r, "name", testkit.TTL)
	require.NoError(b, err)
	read := func(b *testing.B) {
		rd, no := m.RLock(b.Context())
		require.NoError(b, no)
		require.NoError(b, rd.Unlock(b.Context()))
	}
	measure(b, c, "reader alone", read)
	measure(b, c, "writer alone", func(b *testing.B) {
		w, no := m.Lock(b.Context())
		require.NoError(b, no)
		require.NoError(b, w.Unlock(b.Context()))
	})
	one, err := m.RLock(b.Context())
	require.NoError(b, err)
	measure(b, c, "reader among others", read)
	require.NoError(b, one.Unlock(context.Background()))
}

// measure reports how long an operation takes, and the time that it takes of a server's processor.
func measure(b *testing.B, c *testcluster.Cluster, name string, do func(*testing.B)) {
	b.Helper()
	b.Run(name, func(b *testing.B) {
		do(b)
		before := processor(b, c)
		for b.Loop() {
			do(b)
		}
		b.ReportMetric((processor(b, c)-before)*1e6/float64(b.N)/float64(len(c.Nodes)), "server-µs/op")
	})
}

// processor returns how many seconds of processors the servers have used, all together.
func processor(b *testing.B, c *testcluster.Cluster) (s float64) {
	b.Helper()
	for _, n := range c.Nodes {
		conn, err := redis.Dial("tcp", n.DirectAddr())
		require.NoError(b, err)
		info, err := redis.String(conn.Do("INFO", "cpu"))
		require.NoError(b, err)
		require.NoError(b, conn.Close())
		for _, m := range regexp.MustCompile(`used_cpu_(?:user|sys):([\d.]+)`).FindAllStringSubmatch(info, -1) {
			f, err := strconv.ParseFloat(m[1], 64)
			require.NoError(b, err)
			s += f
		}
	}
	return s
}
