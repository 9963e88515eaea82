package calls

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errEnd = errors.New("end")

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGroupCloseWaitsForWhatIsRunning(t *testing.T) {
	g := New(errEnd)
	require.NoError(t, g.Enter())
	require.NoError(t, g.Enter())
	g.Exit()
	assert.False(t, closed(g.Closing))
	assert.True(t, g.Close())
	assert.False(t, g.Close(), "a second time")
	assert.True(t, closed(g.Closing))
	assert.False(t, closed(g.Quiet), "one is running")
	require.Equal(t, errEnd, g.Enter())
	g.Exit()
	assert.True(t, closed(g.Quiet))
}

func TestGroupWithoutCallsIsQuietAtOnce(t *testing.T) {
	g := New(errEnd)
	require.NoError(t, g.Enter())
	g.Exit()
	assert.False(t, closed(g.Quiet), "before Close")
	g.Close()
	assert.True(t, closed(g.Quiet))
}

func TestGroupWaitsEndWithTheContextAndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(errEnd)
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		require.NoError(t, g.Ended(ctx))
		require.NoError(t, g.Sleep(ctx, time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))
		time.AfterFunc(time.Second, cancel)
		require.Equal(t, context.Canceled, g.Sleep(ctx, time.Hour))
		require.Equal(t, context.Canceled, g.Ended(ctx))
		time.AfterFunc(time.Second, func() { g.Close() })
		require.Equal(t, errEnd, g.Sleep(t.Context(), time.Hour))
		require.Equal(t, errEnd, g.Ended(ctx), "before the context's")
	})
}
