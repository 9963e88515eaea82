package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
		has, from := make([]int, sets+1), make(map[string]int)
		for i := range n {
			res := resource(i)
			now := named(sets + 1).At(res).Name
			has[now[len(now)-1]-'a']++
			if old := named(sets).At(res).Name; old != now {
				moved++
				from[old]++
				require.Equal(t, named(sets + 1)[sets].Name, now, "resources move to the new set only")
			}
			if modulo(res, sets) != modulo(res, sets+1) {
				movedModulo++
			}
		}
		for name, count := range from {
			require.InDelta(t, n/(sets*(sets+1)), count, 110, "a new set takes its share from all others: %s", name)
		}
		require.Contains(t, string(text), fmt.Sprintf("\n| %d to %d | %.1f %% | %.1f %% | %d to %d |\n",
			sets, sets+1, 100*moved/n, 100*movedModulo/n, slices.Min(has), slices.Max(has)))
	}
}

func TestThePlaceDependsOnNothingButTheNames(t *testing.T) {
	t.Parallel()
	sets := Sets{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	turned := Sets{{Name: "c"}, {Name: "a"}, {Name: "b"}}
	var places strings.Builder
	for i := range 20 {
		require.Equal(t, sets.At(resource(i)).Name, turned.At(resource(i)).Name)
		places.WriteString(sets.At(resource(i)).Name)
	}
	// Another result would be a move that nobody has prepared.
	require.Equal(t, "cccbbccacacbbbbcbbbc", places.String())
}

func TestADeadSetCostsItsShareOnly(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *stage.Stage){
		"dead": func(s *stage.Stage) { s.Kill(5) },
		"hung": func(s *stage.Stage) { s.Hang(5) },
	} {
		t.Run(name, func(t *testing.T) {
			stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
				stages := open(s, 3)
				sets := connect(stages)
				_, refused := lockAll(t.Context(), sets) // Connects.
				require.Empty(t, refused)
				fail(stages[1])
				share := 0
				for i := range 90 {
					res, start := resource(i), time.Now()
					lock, err := sets.At(res).TryLock(t.Context(), []string{res}, ttl)
					if sets.At(res).Name == "set-b" {
						require.ErrorIs(t, err, redlock.ErrNoQuorum)
						share++
						continue
					}
					require.NoError(t, err)
					require.NoError(t, lock.Unlock(t.Context()))
					require.Less(t, time.Since(start), 10*time.Millisecond, "the others are as fast as ever")
				}
				require.InDelta(t, 30, share, 10)
			})
		})
	}
}

// A fleet is processes that work on resources without end.
type fleet struct {
	phases  []atomic.Int32 // of each process: how it locks
	holders sync.Map       // by resource: *atomic.Int32
	worked  atomic.Int64
	overlap atomic.Int64
}

// run works until ctx ends, in the way of each process's phase.
func (f *fleet) run(ctx context.Context, moves []Move, res []string) {
	stage.Together(len(moves)*len(res), func(i int) error {
		p, resource := i/len(res), res[i%len(res)]
		counter, _ := f.holders.LoadOrStore(resource, new(atomic.Int32))
		work := func(ctx context.Context, _ *redlock.Lock) error {
			holders := counter.(*atomic.Int32)
			if holders.Add(1) > 1 {
				f.overlap.Add(1)
			}
			defer holders.Add(-1)
			f.worked.Add(1)
			return stage.Sleep(ctx, 50*time.Millisecond)
		}
		for ctx.Err() == nil {
			m := moves[p]
			switch f.phases[p].Load() {
			case 0:
				_ = m.From.At(resource).Do(ctx, []string{resource}, ttl, work)
			case 1:
				_ = m.DoBoth(ctx, resource, ttl, work)
			case 2:
				_ = m.To.At(resource).Do(ctx, []string{resource}, ttl, work)
			}
		}
		return nil
	})
}

// deploy runs a fleet of three whose processes go through the phases one after the other.
func deploy(t *testing.T, s *stage.Stage, phases ...int32) (worked []int64, overlap int64) {
	t.Helper()
	stages := open(s, 2)
	moves := []Move{process(stages), process(stages), process(stages)}
	res := append(moving(moves[0], 1, true), moving(moves[0], 1, false)...)
	f := &fleet{phases: make([]atomic.Int32, len(moves))}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		f.run(ctx, moves, res)
		close(done)
	}()
	for _, phase := range phases {
		for p := range f.phases {
			f.phases[p].Store(phase)
			before := f.worked.Load()
			time.Sleep(300 * time.Millisecond)
			worked = append(worked, f.worked.Load()-before)
		}
	}
	cancel()
	<-done
	return worked, f.overlap.Load()
}

func TestNobodyOverlapsWhileBothLocksAreTaken(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		worked, overlap := deploy(t, s, 0, 1, 2)
		require.Zero(t, overlap)
		require.NotContains(t, worked, int64(0), "nobody worked at a step")
	})
}

func TestAMoveInOneStepHasTwoHolders(t *testing.T) {
	stagetest.InBubble(t, func(t *testing.T, s *stage.Stage) {
		_, overlap := deploy(t, s, 0, 2)
		require.Positive(t, overlap, "the test would not notice two holders")
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
