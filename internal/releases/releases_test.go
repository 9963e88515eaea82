package releases

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/node"
)

type claim struct {
	weight int
	life   time.Duration
}

func (c *claim) Weight() int            { return c.weight }
func (c *claim) Longest() time.Duration { return c.life }

func TestReleasesAtTheSameTimeAreOne(t *testing.T) {
	var m Memory[*claim]
	made := 0
	newClaim := func() *claim {
		made++
		return &claim{1, time.Hour}
	}
	r, first := m.Join("a", newClaim)
	require.True(t, first)
	other, first := m.Join("b", newClaim)
	require.True(t, first)
	assert.NotSame(t, r.Claim, other.Claim)
	same, first := m.Join("a", newClaim)
	assert.False(t, first)
	assert.Same(t, r, same)
	r.Err = errors.New("not told")
	m.End(r, true)
	<-same.Ready
	again, first := m.Join("a", newClaim)
	assert.True(t, first, "it may be repeated")
	assert.NotSame(t, r, again)
	assert.Same(t, r.Claim, again.Claim, "with what the nodes have said to the first")
	m.End(again, false)
	m.End(other, false)
	assert.Equal(t, 2, made)
	known, size := m.Size()
	assert.Zero(t, known)
	assert.Zero(t, size)
}

func TestAMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Memory[*claim]
		end := func(i, weight int, life time.Duration) {
			r, first := m.Join(strconv.Itoa(i), func() *claim { return &claim{weight, life} })
			require.True(t, first)
			m.End(r, true)
		}
		for i := range 10 {
			end(i, node.MaxForeign/4, time.Hour)
		}
		known, size := m.Size()
		assert.Equal(t, 4, known)
		assert.Equal(t, node.MaxForeign, size)
		time.Sleep(time.Hour + time.Second)
		for i := range 10 {
			end(100+i, node.MaxForeign/4, time.Second)
		}
		known, _ = m.Size()
		assert.Equal(t, 4, known, "those that had ended have made room")
		time.Sleep(node.MinTombstone - time.Second)
		m.Forget()
		again, first := m.Join("100", func() *claim { t.Error("it is forgotten, though it may be repeated for a minute"); return &claim{} })
		require.True(t, first)
		m.End(again, true)
		time.Sleep(node.MinTombstone + time.Second)
		m.Forget()
		known, size = m.Size()
		assert.Zero(t, known)
		assert.Zero(t, size)
		for i := range 1000 {
			end(200+i, 1, time.Second)
			time.Sleep(time.Second)
			known, _ = m.Size()
			assert.LessOrEqual(t, known, 3*MinSweep)
		}
	})
}
