package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/internal/recipe"
	"github.com/seed6c881748/redlock/examples/internal/recipetest"
	"github.com/seed6c881748/redlock/redlock"
)

// bubble returns n stages, one for each set of nodes.
func bubble(t *testing.T, n int) []*recipe.Stage {
	t.Helper()
	var stages []*recipe.Stage
	for range n {
		stages = append(stages, recipe.Bubble(t))
	}
	return stages
}

// process returns what a process has that knows of the move from all sets but the
// last one to all of them.
func process(t *testing.T, stages []*recipe.Stage) Move {
	t.Helper()
	sets, err := connect(stages, redlock.WithRetryCount(-1))
	require.NoError(t, err)
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

func nothing(context.Context, *redlock.Lock) error { return nil }

func TestTheREADMEHasTheTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	require.Contains(t, string(text), strings.Join(table(10_000, 6), "\n"))
}

func TestANewSetTakesItsShareFromAllOthers(t *testing.T) {
	t.Parallel()
	all := Sets{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}
	from := map[string]int{}
	for i := range 10_000 {
		old, now := all[:3].At(resource(i)).Name, all.At(resource(i)).Name
		if old != now {
			require.Equal(t, "d", now, "resources move to the new set only")
			from[old]++
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		require.InDelta(t, 10_000/12, from[name], 100, name)
	}
}

func TestThePlaceDependsOnNothingButTheNames(t *testing.T) {
	t.Parallel()
	sets := Sets{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	turned := Sets{{Name: "c"}, {Name: "a"}, {Name: "b"}}
	var places strings.Builder
	for i := range 1000 {
		require.Equal(t, sets.At(resource(i)).Name, turned.At(resource(i)).Name)
	}
	for i := range 20 {
		places.WriteString(sets.At(resource(i)).Name)
	}
	// Another result would be a move that nobody has prepared.
	require.Equal(t, "cccbbccacacbbbbcbbbc", places.String())
}

func TestADeadSetCostsItsShareOnly(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(s *recipe.Stage) error{
		"dead": func(s *recipe.Stage) error { return s.Kill(len(s.Nodes)) },
		"hung": func(s *recipe.Stage) error {
			for _, n := range s.Nodes {
				if err := n.Hang(); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stages := bubble(t, 3)
				sets, err := connect(stages)
				require.NoError(t, err)
				_, refused, err := lockAll(t.Context(), sets) // Connects.
				require.NoError(t, err)
				require.Empty(t, refused)
				require.NoError(t, fail(stages[1]))

				var others, share int
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
					others++
				}
				require.InDelta(t, 30, share, 10)
				require.Equal(t, 90, share+others)
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

// run works until ctx ends. The way of a process is lock[its phase].
func (f *fleet) run(ctx context.Context, moves []Move, res []string) {
	recipe.Together(len(moves)*len(res), func(i int) error {
		p, resource := i/len(res), res[i%len(res)]
		counter, _ := f.holders.LoadOrStore(resource, new(atomic.Int32))
		work := func(ctx context.Context, _ *redlock.Lock) error {
			holders := counter.(*atomic.Int32)
			if holders.Add(1) > 1 {
				f.overlap.Add(1)
			}
			defer holders.Add(-1)
			f.worked.Add(1)
			return recipe.Sleep(ctx, 50*time.Millisecond)
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
func deploy(t *testing.T, phases ...int32) (worked []int64, overlap int64) {
	t.Helper()
	stages := bubble(t, 2)
	var moves []Move
	for range 3 {
		moves = append(moves, process(t, stages))
	}
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		worked, overlap := deploy(t, 0, 1, 2)
		require.Zero(t, overlap)
		for step, n := range worked {
			require.Positive(t, n, "nobody worked at step %d", step)
		}
	})
}

func TestAMoveInOneStepHasTwoHolders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, overlap := deploy(t, 0, 2)
		require.Positive(t, overlap, "the test would not notice two holders")
	})
}

func TestTheOldSetIsLockedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stages := bubble(t, 2)
		m := process(t, stages)
		res := moving(m, 1, true)[0]
		old, err := process(t, stages).From.At(res).TryLock(t.Context(), []string{res}, ttl)
		require.NoError(t, err)
		done := make(chan error)
		go func() { done <- m.DoBoth(t.Context(), res, ttl, nothing) }()
		synctest.Wait()
		holding, err := stages[1].Holding(res)
		require.NoError(t, err)
		require.Zero(t, holding, "it would block those who have the old lock")
		require.NoError(t, old.Unlock(t.Context()))
		require.NoError(t, <-done)
	})
}

// Work that needs both locks must stop when either is lost.
func TestTheWorkUnderBothLocksEndsWithEither(t *testing.T) {
	t.Parallel()
	for i, name := range []string{"the old one", "the new one"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stages := bubble(t, 2)
				m := process(t, stages)
				began := time.Now()
				err := m.DoBoth(t.Context(), moving(m, 1, true)[0], ttl, func(ctx context.Context, _ *redlock.Lock) error {
					require.NoError(t, stages[i].Kill(3))
					return recipe.Sleep(ctx, time.Minute)
				})
				require.ErrorIs(t, err, redlock.ErrExpired)
				require.LessOrEqual(t, time.Since(began), 2*ttl, "the work went on")
			})
		})
	}
}

func TestDrainWaitsForTheLastHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stages := bubble(t, 2)
		sets, err := connect(stages) // With the number of retries that is the default: Drain waits for longer.
		require.NoError(t, err)
		m := Move{From: sets[:1], To: sets}
		res := moving(m, 1, true)[0]
		require.ErrorIs(t, m.DoStill(t.Context(), res, ttl, nothing), errMoving)
		stays := moving(m, 1, false)[0]
		require.NoError(t, m.DoStill(t.Context(), stays, ttl, nothing))
		require.NoError(t, m.Drain(t.Context(), stays, ttl))

		holder, finish := process(t, stages).From.At(res), make(chan struct{})
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
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := process(t, bubble(t, 2))
		res := moving(m, 2, true)
		var last [2]int64
		for i, r := range res {
			// In a bubble all this happens in one microsecond, so the old set's counter gets ahead
			// of the clock, as it does where a client's clock is ahead.
			for range 50 {
				require.NoError(t, m.From.At(r).Do(t.Context(), []string{r}, ttl, func(_ context.Context, lock *redlock.Lock) error {
					last[i] = lock.Fence()
					return nil
				}, redlock.WithFencing()))
			}
		}
		guards := [2]*redlock.Guard{redlock.NewGuard(last[0]), redlock.NewGuard(last[1])}
		write := func(i int) error {
			return m.To.At(res[i]).Do(t.Context(), res[i:i+1], ttl, func(_ context.Context, lock *redlock.Lock) error {
				return guards[i].Do(lock.Fence(), func() error { return nil })
			}, redlock.WithFencing())
		}
		require.ErrorIs(t, write(0), redlock.ErrFenced, "the counters of a set know nothing of another's")
		require.NoError(t, m.Drain(t.Context(), res[1], ttl))
		require.NoError(t, write(1))
	})
}

func TestSetsRuns(t *testing.T) {
	recipetest.Runs(t, tell)
}
