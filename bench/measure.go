package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// work is what a client does in its turn: each goroutine locks and unlocks a key that
// nobody else wants, for a time or so often, whichever ends first.
type work struct {
	goroutines int
	length     time.Duration
	locks      int // of each goroutine; 0: any number
}

// An entrant is a client that takes turns with others. It keeps its workers from turn to turn, since a worker may
// hold on to what its library has to set up.
type entrant struct {
	client  client
	servers *meter
	workers []worker
}

func newEntrant(c client, servers *meter, goroutines int) *entrant {
	e := &entrant{client: c, servers: servers}
	for range goroutines {
		e.workers = append(e.workers, c.NewWorker())
	}
	return e
}

// take has the entrant take its turn, with keys that begin with prefix.
func (e *entrant) take(w work, prefix string) (t turn, err error) {
	var begin beginning
	results := cycleAll(e.workers, w, prefix, newSamples(w), func() { begin, err = e.begin(w) })
	if err != nil {
		return t, err
	}
	now := usage()
	for _, r := range results {
		t.add(r)
	}
	t.took, t.client = now.at.Sub(begin.at), now.cpu-begin.cpu
	t.allocs, t.size = now.allocs-begin.allocs, now.size-begin.size
	t.servers, err = e.servers.since(begin.servers)
	return t, err
}

// beginning is where a turn begins, by all accounts.
type beginning struct {
	used
	servers reading
}

func (e *entrant) begin(w work) (b beginning, err error) {
	if w.locks == 0 {
		runtime.GC() // Nobody pays for another one's garbage.
	}
	if b.servers, err = e.servers.begin(); err != nil {
		return b, err
	}
	b.used = usage()
	return b, nil
}

// used is what this process has used so far.
type used struct {
	at           time.Time
	cpu          time.Duration
	allocs, size uint64
}

func usage() used {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{time.Now(), cpuTime(), m.Mallocs, m.TotalAlloc}
}

// blockWarmup is how many locks at the start of each block do not count, at most: the
// processor's caches are still full of what another client did.
const blockWarmup = 10

// cycleAll has all workers work at the same time, and returns what each has done. The room
// in kept is for their latencies. Before begin, which is called once, each of them locks and
// unlocks a few times, which does not count: new goroutines have small stacks.
func cycleAll(workers []worker, w work, prefix string, kept []samples, begin func()) []turn {
	var stop, never atomic.Bool
	results := make([]turn, len(workers))
	began := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(len(workers))
	first := work{locks: 1}
	if w.locks > 0 {
		first.locks = min(blockWarmup, w.locks)
	}
	for i, wk := range workers {
		done.Go(func() {
			key := prefix + strconv.Itoa(i)
			cycles(wk, first, key, samples{}, &never)
			ready.Done()
			<-began
			results[i] = cycles(wk, w, key, kept[i], &stop)
		})
	}
	ready.Wait()
	begin()
	timer := time.AfterFunc(w.length, func() { stop.Store(true) })
	defer timer.Stop()
	close(began)
	done.Wait()
	return results
}

// cycles locks and unlocks until it is told to stop, or has done so often enough.
func cycles(wk worker, w work, key string, kept samples, stop *atomic.Bool) turn {
	ctx := context.Background()
	t := turn{timed: kept}
	for i := 0; !stop.Load() && (w.locks == 0 || i < w.locks); i++ {
		start := time.Now()
		err := wk.Try(ctx, key)
		locked := time.Since(start)
		if err == nil {
			err = wk.Unlock(ctx)
		}
		if err == nil {
			t.ops++
			t.timed.keep(locked, time.Since(start))
			continue
		}
		t.failed++
		if t.err == nil {
			t.err = fmt.Errorf("%s: %w", key, err)
		}
	}
	return t
}

// samples are latencies of one worker. Their room is made before the turn, so that
// keeping them costs nobody an allocation.
type samples struct{ lock, both []time.Duration }

// newSamples makes room for more locks than any client can get. Where that is wrong, the
// latencies at the end of a turn are missing.
func newSamples(w work) []samples {
	const perSecond, perGoroutine = 400_000, 40_000
	room := min(perSecond/w.goroutines, perGoroutine)
	room = max(int(float64(room)*w.length.Seconds()), 64)
	if w.locks > 0 {
		room = min(room, w.locks)
	}
	all := make([]samples, w.goroutines)
	for i := range all {
		all[i] = samples{make([]time.Duration, 0, room), make([]time.Duration, 0, room)}
	}
	return all
}

func (s *samples) keep(lock, both time.Duration) {
	if len(s.lock) < cap(s.lock) {
		s.lock, s.both = append(s.lock, lock), append(s.both, both)
	}
}
