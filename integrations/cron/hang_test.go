package redlockcron

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/redlock"
)

// While two of three nodes hang, the log has an error; while one does, that another process runs the job, which is none.
func TestNodesThatHang(t *testing.T) {
	nodetest.Hang(t, func(t *testing.T, holder, other *redlock.Redlock, hang func(), outage bool) {
		running, runs := make(chan struct{}), 0
		defer close(running)
		first := must(NewLocker(holder, &record{}, time.Hour, minHold))
		go first.Func("report", func(context.Context) error { <-running; return nil }).Run()
		time.Sleep(time.Second)
		hang()
		log := &record{}
		job := must(NewLocker(other, log, ttl, minHold)).Func("report", func(context.Context) error { runs++; return nil })
		for range 5 {
			job.Run()
			time.Sleep(700 * time.Millisecond)
		}
		want, not := "info skip job=report", "error job not run job=report"
		if outage {
			want, not = not, want
		}
		require.Len(t, log.told(want), 5)
		require.Empty(t, log.told(not))
		require.Zero(t, runs)
	})
}
