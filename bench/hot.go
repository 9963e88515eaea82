package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/tables"
)

// hotTurn is the length of a turn.
const hotTurn = 10 * time.Millisecond

// A hotspot is a resource that many callers of a few processes want all the time.
type hotspot struct {
	processes, goroutines int
	work                  time.Duration
	way                   time.Duration // of each message to the nodes and back
}

var hotspots = []hotspot{
	{1, 16, 0, 0},
	{1, 16, time.Millisecond, 0},
	{4, 4, 0, 0},
	{4, 4, 100 * time.Microsecond, 0},
	{4, 4, time.Millisecond, 0},
	{4, 4, time.Millisecond, 500 * time.Microsecond},
}

// A heat is what the processes have done.
type heat struct {
	Locks    []float64 // by goroutine
	Longest  time.Duration
	commands int64 // of the nodes
}

func (h heat) sum() (n float64) {
	for _, l := range h.Locks {
		n += l
	}
	return n
}

// hot measures what a lock costs that many callers of a process want: released to the nodes each time, and passed on.
func hot(s settings, out *section) error {
	t := tables.New(fmt.Sprintf("Processes x goroutines lock, work and unlock again and again for %v, without and with WithTurn(%v) in turn; "+
		"medians of %d rounds. Requests are those to all nodes for each lock. Fairness is Jain's index", s.contentionTime, hotTurn, s.rounds),
		"contest", "work", "way to the nodes", "locks/s", "with turns", "factor", "requests", "with turns", "fairness with turns", "longest wait ms", "with turns")
	for _, h := range hotspots {
		var rates, factors, requests, fairness, longest [2][]float64
		for range s.rounds {
			var rate [2]float64
			for i, turn := range []time.Duration{0, hotTurn} {
				got, err := h.run(s, turn)
				if err != nil {
					return err
				}
				n := got.sum()
				rate[i] = n / s.contentionTime.Seconds()
				rates[i], requests[i] = append(rates[i], rate[i]), append(requests[i], float64(got.commands)/max(n, 1))
				fairness[i], longest[i] = append(fairness[i], jain(got.Locks)), append(longest[i], micros(got.Longest)/1000)
			}
			factors[0] = append(factors[0], rate[1]/rate[0])
		}
		t.Add(fmt.Sprintf("%d x %d", h.processes, h.goroutines), h.work.String(), h.way.String(),
			fmt.Sprintf("%.0f", median(rates[0])), fmt.Sprintf("%.0f", median(rates[1])), fmt.Sprintf("%.1f", median(factors[0])),
			fmt.Sprintf("%.1f", median(requests[0])), fmt.Sprintf("%.3f", median(requests[1])), fmt.Sprintf("%.3f", median(fairness[1])),
			fmt.Sprintf("%.0f", median(longest[0])), fmt.Sprintf("%.0f", median(longest[1])))
	}
	return out.table(t)
}

func (h hotspot) run(s settings, turn time.Duration) (all heat, err error) {
	cluster, err := testcluster.StartServers(s.nodes, testcluster.WithProxy())
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	addrs := cluster.Addrs()
	for i, n := range cluster.Nodes {
		if addrs[i] = n.DirectAddr(); h.way > 0 {
			addrs[i] = n.ProxyAddr()
			n.Proxy().SetDelay(h.way, h.way)
		}
	}
	m, err := newMeter(cluster.Nodes)
	if err != nil {
		return all, err
	}
	defer m.close()
	began, err := m.begin()
	if err != nil {
		return all, err
	}
	from := time.Now().Add(time.Second)
	o := order{Role: "hot", Addrs: addrs, TTL: s.ttl, Goroutines: h.goroutines, Hold: h.work, Turn: turn, From: from, To: from.Add(s.contentionTime)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range h.processes {
		wg.Go(func() {
			var own heat
			line, e := told(o)
			if e == nil {
				e = json.Unmarshal([]byte(line), &own)
			}
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			all.Locks, all.Longest = append(all.Locks, own.Locks...), max(all.Longest, own.Longest)
		})
	}
	wg.Wait()
	did, e := m.since(began)
	all.commands = did.commands
	return all, errors.Join(err, e)
}

// heatUp is what a child process does.
func heatUp(o order, out io.Writer) error {
	opts := []redlock.Option{redlock.WithRetryCount(-1)}
	if o.Turn > 0 {
		opts = append(opts, redlock.WithTurn(o.Turn))
	}
	r, err := libraries.OpenRedlock(o.Addrs, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close(context.Background()) }()
	h := heat{Locks: make([]float64, o.Goroutines)}
	longest, errs := make([]time.Duration, o.Goroutines), make([]error, o.Goroutines)
	var wg sync.WaitGroup
	time.Sleep(time.Until(o.From))
	for i := range h.Locks {
		wg.Go(func() {
			for errs[i] == nil && time.Now().Before(o.To) {
				asked := time.Now()
				l, err := r.Lock(context.Background(), []string{"hot"}, o.TTL)
				if errs[i] = err; err != nil {
					return
				}
				h.Locks[i]++
				longest[i] = max(longest[i], time.Since(asked))
				toil(o.Hold)
				errs[i] = l.Unlock(context.Background())
			}
		})
	}
	wg.Wait()
	for _, d := range longest {
		h.Longest = max(h.Longest, d)
	}
	return errors.Join(errors.Join(errs...), json.NewEncoder(out).Encode(h))
}

// toil works for d. A short sleep would take longer than it should.
func toil(d time.Duration) {
	if d >= time.Millisecond {
		time.Sleep(d)
		return
	}
	for began := time.Now(); time.Since(began) < d; { //nolint:revive // It is what it does.
	}
}
