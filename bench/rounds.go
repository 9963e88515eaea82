package main

import (
	"fmt"
	"slices"
	"time"
)

// pause between two turns, in which the slower nodes' part of the last locks of
// a client that does not wait for them comes to its end.
const pause = 30 * time.Millisecond

const (
	// warmUpTime and warmUpLocks bound an entrant's part in a round that is not counted.
	warmUpTime  = 300 * time.Millisecond
	warmUpLocks = 20

	// warmUps is the largest number of such rounds. There is one after the other until
	// nobody makes a connection in it.
	warmUps = 4
)

// results are the turns of entrants, one each round.
type results struct {
	names []string
	bases map[string]string // by name
	turns [][]turn          // by entrant and round
}

// takeTurns gives every entrant its turns: so many rounds, in each of which it has so many
// blocks. They take turns after every block, so that a disturbance of the machine hits all
// of them alike, and another one begins in each round.
func takeTurns(entrants []*entrant, rounds, blocks int) (r results, err error) {
	r.bases = make(map[string]string)
	for _, e := range entrants {
		defer e.close()
		if err = e.open(); err != nil {
			return r, fmt.Errorf("%s: %w", e.name, err)
		}
		r.names = append(r.names, e.name)
		if e.base != "" {
			r.bases[e.name] = e.base
		}
	}
	if err = warmUp(entrants); err != nil {
		return r, err
	}
	r.turns = make([][]turn, len(entrants))
	for round := range rounds {
		now := make([]turn, len(entrants))
		for block := range blocks {
			for k := range entrants {
				i := (k + round) % len(entrants)
				e := entrants[i]
				// A key of an earlier turn is not used again: redsync with fail-fast can
				// leave it behind on a node, where it would then refuse the next lock.
				var t turn
				if t, err = e.take(e.work, fmt.Sprintf("%s:%d:%d:%d:", e.name, e.work.goroutines, round, block)); err != nil {
					return r, fmt.Errorf("%s: %w", e.name, err)
				}
				now[i].add(t)
				time.Sleep(pause)
			}
		}
		for i, e := range entrants {
			if err = now[i].check(); err != nil {
				return r, fmt.Errorf("%s: %w", e.name, err)
			}
			now[i].complete()
			r.turns[i] = append(r.turns[i], now[i])
		}
	}
	return r, nil
}

// warmUp has all entrants work until none of them makes a connection.
func warmUp(entrants []*entrant) error {
	for n := range warmUps {
		dials := int64(0)
		for _, e := range entrants {
			if e.warm {
				continue
			}
			w := e.work
			w.length = min(w.length, warmUpTime)
			if w.locks > 0 {
				w.locks = min(w.locks, warmUpLocks)
			}
			t, err := e.take(w, fmt.Sprintf("%s:%d:warm:%d:", e.name, w.goroutines, n))
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			dials += t.servers.dials
		}
		if dials == 0 {
			break
		}
	}
	return nil
}

// of returns what f gives for each turn of an entrant; nothing if there is no such entrant.
func (r results) of(name string, f func(turn) float64) []float64 {
	i := slices.Index(r.names, name)
	if i < 0 {
		return nil
	}
	return each(r.turns[i], f)
}

// ratios returns the rounds' ratios of one entrant's figure and another one's.
func (r results) ratios(one, other string, f func(turn) float64) []float64 {
	a, b := r.of(one, f), r.of(other, f)
	return ratios(a[:min(len(a), len(b))], b[:min(len(a), len(b))])
}
