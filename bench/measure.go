package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// work is what a client does in its turn: each goroutine locks and unlocks keys that
// nobody else wants, for a time or so often, whichever ends first.
type work struct {
	goroutines int
	length     time.Duration
	locks      int  // of each goroutine; 0: any number
	fresh      bool // a new key for every lock, instead of one per goroutine
}

// An entrant is a client with its work, which takes turns with others.
type entrant struct {
	name   string // different from the other entrants'
	client client
	nodes  []*testcluster.Node // the servers to be metered
	work   work
	before func() error // prepares a turn; nil: nothing to prepare
	after  func() error // clears up after one
	warm   bool         // needs no warm-up: it shares the connections of another entrant

	meter   *meter
	workers []worker
}

// open makes what the entrant keeps from turn to turn: its workers, since a worker may
// hold on to what its library has to set up, and its meter.
func (e *entrant) open() (err error) {
	for range e.work.goroutines {
		e.workers = append(e.workers, e.client.newWorker())
	}
	e.meter, err = newMeter(e.nodes)
	return err
}

func (e *entrant) close() {
	if e.meter != nil {
		e.meter.close()
	}
}

// take has the entrant take its turn, with keys that begin with prefix.
func (e *entrant) take(w work, prefix string) (t turn, err error) {
	if e.before != nil {
		if err = e.before(); err != nil {
			return t, err
		}
	}
	if e.after != nil {
		defer func() { err = errors.Join(err, e.after()) }()
	}
	kept := newSamples(w)
	if w.locks == 0 {
		runtime.GC() // Nobody pays for another one's garbage.
	} else {
		// The processor's caches are still full of what another client did.
		cycleAll(e.workers, work{length: time.Second, locks: blockWarmup, fresh: w.fresh}, prefix+"warm:", make([]samples, w.goroutines))
	}
	begin, err := e.meter.begin()
	if err != nil {
		return t, err
	}
	var ownServers time.Duration
	if e.client.serverCPU != nil {
		ownServers = e.client.serverCPU()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuTime(), time.Now()

	results := cycleAll(e.workers, w, prefix, kept)

	t.took, t.client = time.Since(start), cpuTime()-cpu
	runtime.ReadMemStats(&after)
	for _, r := range results {
		t.add(r)
	}
	t.allocs, t.size = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	if t.servers, err = e.meter.since(begin); err == nil && e.client.serverCPU != nil {
		t.servers = load{cpu: e.client.serverCPU() - ownServers}
	}
	return t, err
}

// blockWarmup is how many locks at the start of each block do not count.
const blockWarmup = 10

// cycleAll has all workers work at the same time, and returns what each has done. The room in
// kept is for their latencies.
func cycleAll(workers []worker, w work, prefix string, kept []samples) []turn {
	var stop atomic.Bool
	timer := time.AfterFunc(w.length, func() { stop.Store(true) })
	defer timer.Stop()
	results := make([]turn, len(workers))
	var wg sync.WaitGroup
	for i, wk := range workers {
		wg.Go(func() { results[i] = cycles(wk, w, prefix+strconv.Itoa(i), kept[i], &stop) })
	}
	wg.Wait()
	return results
}

// cycles locks and unlocks until it is told to stop, or has done so often enough.
func cycles(wk worker, w work, key string, kept samples, stop *atomic.Bool) turn {
	ctx := context.Background()
	t := turn{timed: kept}
	for i := 0; !stop.Load() && (w.locks == 0 || i < w.locks); i++ {
		k := key
		if w.fresh {
			k = key + ":" + strconv.Itoa(i)
		}
		start := time.Now()
		err := wk.lock(ctx, k)
		locked := time.Since(start)
		if err == nil {
			err = wk.unlock(ctx)
		}
		if err == nil {
			t.ops++
			t.timed.keep(locked, time.Since(start))
			continue
		}
		t.failed++
		if t.err == nil {
			t.err = fmt.Errorf("%s: %w", k, err)
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
