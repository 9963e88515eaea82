package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/stage"
	"github.com/seed6c881748/redlock/examples/internal/stagetest"
	"github.com/seed6c881748/redlock/redlock"
)

// process returns what a process has that knows of the move from all sets but the last one to all of them.
func process(stages []*stage.Stage) Move {
	sets := connect(stages, redlock.WithRetryCount(-1))
	return Move{From: sets[:len(sets)-1], To: sets}
}

// moving returns n resources that move, or, if moves is false, that do not.
func moving(m Move, n int, moves bool) []string {
	var found []string
	for i := 0; len(found) < n; i++ {
		if res := resource(i); m.Moves(res) == moves {
			found = append(found, res)
		}
	}
	return found
}

// The table of the README is what becomes of 10 000 resources when a set is added, by this hashing and by the usual one.
func TestTheREADMEHasTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	modulo := func(resource string, sets int) uint64 {
		sum := sha256.Sum256([]byte(resource))
		return binary.BigEndian.Uint64(sum[:]) % uint64(sets)
	}
	const n = 10_000
	for sets := 1; sets < 6; sets++ {
		var moved, movedModulo float64
		has := make([]int, sets+1)
		for i := range n {
			res := resource(i)
			now := named(sets + 1).At(res).Name
			has[now[len(now)-1]-'a']++
			if old := named(sets).At(res).Name; old != now {
				moved++
				require.Equal(t, named(sets + 1)[sets].Name, now, "resources move to the new set only")
			}
			if modulo(res, sets) != modulo(res, sets+1) {
				movedModulo++
			}
		}
		require.Contains(t, string(text), fmt.Sprintf("\n| %d to %d | %.1f %% | %.1f %% | %d to %d |\n",
			sets, sets+1, 100*moved/n, 100*movedModulo/n, slices.Min(has), slices.Max(has)))
	}
	// Another result would be a move that nobody has prepared. The order of the sets is none of a process's business.
	places := ""
	for i := range 20 {
		places += Sets{{Name: "c"}, {Name: "a"}, {Name: "b"}}.At(resource(i)).Name
	}
	require.Equal(t, "cccbbccacacbbbbcbbbc", places)
}

// Three processes work on a resource without end, and go from one way of locking to the next, one after the other.
func TestNobodyOverlapsWhileBothLocksAreTaken(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		stages := open(s, 2)
		var phases [3]atomic.Int32
		var working, worked atomic.Int64
		work := func(ctx context.Context, _ *redlock.Lock) error {
			assert.EqualValues(t, 1, working.Add(1))
			defer working.Add(-1)
			worked.Add(1)
			return stage.Sleep(ctx, 50*time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var processes sync.WaitGroup
		for p := range phases {
			m := process(stages)
			res := moving(m, 1, true)[0]
			processes.Go(func() {
				for ctx.Err() == nil {
					switch phases[p].Load() {
					case 0:
						_ = m.From.At(res).Do(ctx, []string{res}, ttl, work)
					case 1:
						_ = m.DoBoth(ctx, res, ttl, work)
					case 2:
						_ = m.To.At(res).Do(ctx, []string{res}, ttl, work)
					}
				}
			})
		}
		for phase := range int32(3) {
			for p := range phases {
				phases[p].Store(phase)
				before := worked.Load()
				time.Sleep(300 * time.Millisecond)
				assert.Greater(t, worked.Load(), before, "they go on")
			}
		}
		cancel()
		processes.Wait()
	})
}

func TestTheOldSetIsLockedFirst(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		stages := open(s, 2)
		m := process(stages)
		res := moving(m, 1, true)[0]
		old := stage.Got(process(stages).From.At(res).TryLock(t.Context(), []string{res}, ttl))
		done := make(chan error)
		go func() { done <- m.DoBoth(t.Context(), res, ttl, nothing) }()
		synctest.Wait()
		require.Zero(t, stages[1].Holding(res), "it would block those who have the old lock")
		require.NoError(t, old.Unlock(t.Context()))
		require.NoError(t, <-done)
	})
}

// Work that needs both locks must stop when either is lost.
func TestTheWorkUnderBothLocksEndsWithEither(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"the old one", "the new one"} {
		t.Run(name, func(t *testing.T) {
			stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
				stages := open(s, 2)
				m := process(stages)
				began := time.Now()
				err := m.DoBoth(t.Context(), moving(m, 1, true)[0], ttl, func(ctx context.Context, _ *redlock.Lock) error {
					stages[i].Kill(3)
					return stage.Sleep(ctx, time.Minute)
				})
				require.ErrorIs(t, err, redlock.ErrExpired)
				require.LessOrEqual(t, time.Since(began), 2*ttl, "the work went on")
			})
		})
	}
}

func TestDrainWaitsForTheLastHolder(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		stages := open(s, 2)
		sets := connect(stages) // With the number of retries that is the default: Drain waits for longer.
		m := Move{From: sets[:1], To: sets}
		res, stays := moving(m, 1, true)[0], moving(m, 1, false)[0]
		require.ErrorIs(t, m.DoStill(t.Context(), res, ttl, nothing), errMoving)
		require.NoError(t, m.DoStill(t.Context(), stays, ttl, nothing))
		require.NoError(t, m.Drain(t.Context(), stays, ttl))

		holder, finish := process(stages).From.At(res), make(chan struct{})
		var worked atomic.Bool
		go func() {
			_ = holder.Do(t.Context(), []string{res}, ttl, func(context.Context, *redlock.Lock) error {
				<-finish
				worked.Store(true)
				return nil
			})
		}()
		synctest.Wait()
		time.AfterFunc(3*ttl, func() { close(finish) })
		require.NoError(t, m.Drain(t.Context(), res, ttl))
		require.True(t, worked.Load(), "drained while somebody works")
	})
}

func TestFencesGoOnAfterADrain(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		m := process(open(s, 2))
		res := moving(m, 2, true)
		var guards [2]redlock.Guard
		write := func(set Set, i int) error {
			return set.Do(t.Context(), res[i:i+1], ttl, func(_ context.Context, lock *redlock.Lock) error {
				return guards[i].Do(lock.Fence(), func() error { return nil })
			}, redlock.WithFencing())
		}
		for i := range res {
			// In a bubble all this happens in one microsecond, so the old set's counter gets ahead of the clock, as it does
			// where a client's clock is ahead.
			for range 50 {
				require.NoError(t, write(m.From.At(res[i]), i))
			}
		}
		require.ErrorIs(t, write(m.To.At(res[0]), 0), redlock.ErrFenced, "the counters of a set know nothing of another's")
		require.NoError(t, m.Drain(t.Context(), res[1], ttl))
		require.NoError(t, write(m.To.At(res[1]), 1))
	})
}

func TestSetsRuns(t *testing.T) { stagetest.Runs(t, tell) }
