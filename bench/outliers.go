package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/tables"
)

// A gap is a time in which a goroutine of this process did not get to run when
// it should have.
type gap struct {
	from, to time.Time
	cpu      time.Duration // processor time that the process used meanwhile
}

// A witness helps to tell what holds operations up: it only sleeps, and notes
// when it was woken late. A late wake-up while the process used little processor
// time was the machine's doing; one while it used much was its own, be it the
// library's or the garbage collector's. Where the witness was in time, a server
// was slow or the library kept its callers waiting.
type witness struct {
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
	gaps []gap
}

// lateness is how late a wake-up must be to be noted.
const lateness = 5 * time.Millisecond

func startWitness() *witness {
	w := &witness{stop: make(chan struct{})}
	w.wg.Go(func() {
		const nap = time.Millisecond
		for {
			select {
			case <-w.stop:
				return
			default:
			}
			start, cpu := time.Now(), cpuTime()
			time.Sleep(nap)
			if now := time.Now(); now.Sub(start) > nap+lateness {
				w.gaps = append(w.gaps, gap{start.Add(nap), now, cpuTime() - cpu})
			}
		}
	})
	return w
}

// end stops the witness and returns what it has seen. It may be called again.
func (w *witness) end() []gap {
	w.once.Do(func() { close(w.stop) })
	w.wg.Wait()
	return w.gaps
}

// lost returns how much of an observation fell into gaps, and what processor
// time this process used in these gaps.
func lost(o observation, gaps []gap) (sum, cpu time.Duration) {
	for _, g := range gaps {
		from, to := g.from, g.to
		if from.Before(o.start) {
			from = o.start
		}
		if to.After(o.end()) {
			to = o.end()
		}
		if to.After(from) {
			sum += to.Sub(from)
			cpu += g.cpu
		}
	}
	return sum, cpu
}

// maxOutliers bounds how many are listed for one number of callers.
const maxOutliers = 20

// outliers lists the operations that failed or took very long, with the time at
// which they did. Several that end within a few milliseconds of each other are
// one event, and listed once.
type outliers struct {
	*tables.Table
	limit time.Duration
}

func newOutliers(limit time.Duration) *outliers {
	return &outliers{tables.New(fmt.Sprintf("Operations that failed or took over %v, and how late a goroutine that only sleeps "+
		"was woken meanwhile: late with little CPU time used, the machine was the cause", limit),
		"fault, callers", "ms after the fault", "operations", "longest took ms", "sleeper late ms", "CPU used then ms", "failed", "first failure"), limit}
}

// An outlier is one event that held operations up.
type outlier struct {
	worst         observation
	last          time.Time
	count, failed int
	failure       string
}

// note adds what ended after from.
func (t *outliers) note(callers string, seen []observation, gaps []gap, from, struck time.Time) {
	var found []observation
	for _, o := range seen {
		if o.end().After(from) && (o.err != nil || o.took > t.limit) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b observation) int { return a.end().Compare(b.end()) })
	events := group(found)
	for i, e := range events {
		if i == maxOutliers {
			t.Add(callers, fmt.Sprintf("%d more", len(events)-i), "", "", "", "", "", "")
			break
		}
		late, cpu := lost(e.worst, gaps)
		t.Add(callers, millis(e.worst.end().Sub(struck)), strconv.Itoa(e.count), millis(e.worst.took),
			millis(late), millis(cpu), strconv.Itoa(e.failed), e.failure)
	}
}

// group makes events of observations that are sorted by their end.
func group(found []observation) []outlier {
	const together = 10 * time.Millisecond
	var events []outlier
	for _, o := range found {
		if n := len(events); n == 0 || o.end().Sub(events[n-1].last) > together {
			events = append(events, outlier{worst: o, failure: "-"})
		}
		e := &events[len(events)-1]
		e.last = o.end()
		e.count++
		if o.took > e.worst.took {
			e.worst = o
		}
		if o.err != nil {
			if e.failed == 0 {
				e.failure = brief(o.err)
			}
			e.failed++
		}
	}
	return events
}

// brief says in few words how the nodes voted.
func brief(err error) string {
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		return err.Error()
	}
	yes, late, other := 0, 0, 0
	for _, v := range q.Votes {
		switch {
		case v.Err == nil:
			yes++
		case errors.Is(v.Err, redlock.ErrNodeTimeout), errors.Is(v.Err, redlock.ErrPending):
			late++
		default:
			other++
		}
	}
	return fmt.Sprintf("%s: %d yes, %d silent, %d other (%v)", q.Op, yes, late, other, q.Unwrap())
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f", micros(d)/1000) }
