package conn

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

type poolFunc func(ctx context.Context) (redis.Conn, error)

func (f poolFunc) GetContext(ctx context.Context) (redis.Conn, error) { return f(ctx) }

func TestPoolsMistakesAreErrors(t *testing.T) {
	for want, p := range map[string]poolFunc{
		"the pool's GetContext panicked: a bug (at ":   func(context.Context) (redis.Conn, error) { panic("a bug") },
		"the pool returned no connection and no error": func(context.Context) (redis.Conn, error) { return nil, nil },
		"the pool's GetContext ended its goroutine":    func(context.Context) (redis.Conn, error) { runtime.Goexit(); return nil, nil },
		"refused": func(context.Context) (redis.Conn, error) { return nil, errors.New("refused") },
		"the pool's GetContext panicked: runtime error: inva": func(context.Context) (redis.Conn, error) { var p *redis.Pool; return p.Get(), nil },
	} {
		w, err := NewSource(p).Borrow(t.Context())
		require.ErrorContains(t, err, want)
		assert.Nil(t, w)
	}
}

// Each call that hangs is a goroutine, so that there must not be more and more of them; and
// the pool must be called again at times, or its node would be away for good.
func TestPoolThatHangsIsCalledABoundedNumberOfTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		s := NewSource(poolFunc(func(context.Context) (redis.Conn, error) {
			<-hung
			return nil, errors.New("too late")
		}))
		borrow := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Borrow(ctx)
			return err
		}
		for range MaxStuck {
			require.EqualError(t, borrow(), "no connection from the pool within 1s")
		}
		require.ErrorIs(t, borrow(), errStuck)
		assert.Equal(t, MaxStuck, s.Stuck())
		time.Sleep(StuckPause)
		require.EqualError(t, borrow(), "no connection from the pool within 1s")
		require.ErrorIs(t, borrow(), errStuck)
		close(hung)
		synctest.Wait()
		assert.Zero(t, s.Stuck())
		require.EqualError(t, borrow(), "too late")
	})
}

func TestPoolGetsBackAConnectionThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := testcluster.RunBubble(t, 1).Nodes[0].Pool()
		s := NewSource(poolFunc(func(context.Context) (redis.Conn, error) {
			time.Sleep(2 * time.Second)
			return pool.Get(), nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Borrow(ctx)
		require.EqualError(t, err, "no connection from the pool within 1s")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, pool.ActiveCount()-pool.IdleCount())
		require.NoError(t, pool.Close())
	})
}

func TestStepsGoTogetherAndAreCheckedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		n := testcluster.RunBubble(t, 1).Nodes[0]
		w, err := NewSource(n.Pool()).Borrow(t.Context())
		require.NoError(t, err)
		defer w.GiveBack()
		require.NoError(t, w.Err())
		require.NoError(t, w.Abortable(t.Context()))
		require.NoError(t, n.Slow(trip/2, trip/2))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var order []string
		step := func(name string, failure error, command ...any) Step {
			return Step{command, func(a Answer) error {
				order = append(order, name)
				text, failed := a.Text()
				if name == "unknown" {
					assert.True(t, IsReply(failed))
					assert.Equal(t, "ERR", ErrorCode(failed))
				} else if assert.NoError(t, failed) {
					assert.Equal(t, name, text)
				}
				return failure
			}}
		}
		wrong, start := errors.New("wrong"), time.Now()
		err = w.Run(ctx, []Step{
			step("OK", nil, "SET", "a", "b"), step("unknown", nil, "NONSENSE"), step("b", wrong, "GET", "a"), step("none", nil, "GET", "a"),
		})
		require.ErrorIs(t, err, wrong)
		assert.Equal(t, []string{"OK", "unknown", "b"}, order)
		assert.Equal(t, trip, time.Since(start), "one round trip")
		w.Abort()
		_, err = w.Exchange(ctx, [][]any{{"PING"}})
		require.Error(t, err)
	})
}
