package main

import (
	"fmt"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
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

// results are the turns of clients, one each round.
type results struct {
	names []string
	turns [][]turn // by client and round
}

// takeTurns gives every client its turns: so many rounds, in each of which it has so many
// blocks. They take turns after every block, so that a disturbance of the machine hits all
// of them alike, and another one begins in each round. begin is called once they have warmed up.
func takeTurns(
	s settings, clients []client, nodes []*testcluster.Node, goroutines int, begin func() error,
) (r results, err error) {
	servers, err := newMeter(nodes)
	if err != nil {
		return r, err
	}
	defer servers.close()
	w, blocks := s.work(goroutines)
	entrants := make([]*entrant, len(clients))
	for i, c := range clients {
		entrants[i] = newEntrant(c, servers, goroutines)
		r.names = append(r.names, c.Name)
	}
	if err = warmUp(entrants, w); err != nil {
		return r, err
	}
	if begin != nil {
		if err = begin(); err != nil {
			return r, err
		}
	}
	r.turns = make([][]turn, len(entrants))
	for round := range s.rounds {
		now := make([]turn, len(entrants))
		for block := range blocks {
			for k := range entrants {
				i := (k + round) % len(entrants)
				// A key of an earlier turn is not used again: redsync with fail-fast can
				// leave it behind on a node, where it would then refuse the next lock.
				t, takeErr := entrants[i].take(w, fmt.Sprintf("%s:%d:%d:%d:", r.names[i], goroutines, round, block))
				if takeErr != nil {
					return r, takeErr
				}
				now[i].add(t)
				time.Sleep(pause)
			}
		}
		for i := range entrants {
			if err = now[i].complete(); err != nil {
				return r, fmt.Errorf("%s: %w", r.names[i], err)
			}
			r.turns[i] = append(r.turns[i], now[i])
		}
	}
	return r, nil
}

// warmUp has all entrants work until none of them makes a connection.
func warmUp(entrants []*entrant, w work) error {
	w.length = min(w.length, warmUpTime)
	if w.locks > 0 {
		w.locks = min(w.locks, warmUpLocks)
	}
	for n := range warmUps {
		dials := int64(0)
		for _, e := range entrants {
			t, err := e.take(w, fmt.Sprintf("%s:%d:warm:%d:", e.client.Name, w.goroutines, n))
			if err != nil {
				return err
			}
			dials += t.servers.dials
		}
		if dials == 0 {
			break
		}
	}
	return nil
}

// ratios returns the rounds' ratios of one client's figure and another one's.
func (r results) ratios(one, other int, f func(turn) float64) []float64 {
	return ratios(each(r.turns[one], f), each(r.turns[other], f))
}
