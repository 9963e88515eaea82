package conn

import (
	"context"
	"errors"
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
