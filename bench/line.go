package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/tables"
)

const (
	lineNodes = 3
	lineHold  = 2 * time.Millisecond

	// lineTimes is how many contests a line lasts: in a long one, each has few turns.
	lineTimes = 5
)

// lineSizes are how many processes want one lock.
var lineSizes = []int{16, 64, 256}

// inLine measures how well the order between processes is kept. Each has a client of its own; that
// all of them are in one process of the system spares the machine some hundred of these.
func inLine(s settings, out *section) error {
	length := lineTimes * s.contestTime
	t := tables.New(fmt.Sprintf("Processes lock, hold for %v, unlock and come back at once, for %v after %v "+
		"that are not counted; %d nodes. Ahead of others are the turns of those that were served before somebody "+
		"who had waited longer, by more than an eighth of the line. Fairness is Jain's index",
		lineHold, length, s.warmUp, lineNodes),
		slices.Concat([]string{"processes", "client", "ahead of others"}, boutColumns)...)
	for _, n := range few(s, lineSizes) {
		for _, client := range peerNames {
			err := onServers(lineNodes, func(cluster *testcluster.Cluster) error {
				l, err := standInLine(s, cluster, client, n)
				if err != nil {
					return fmt.Errorf("%d processes, %s: %w", n, client, err)
				}
				b := judge(l.served, n, length)
				b.longest = max(b.longest, l.longest)
				t.Add(append([]string{fmt.Sprint(n), client, fmt.Sprintf("%.1f %%", 100*l.ahead(n/8))}, b.cells()...)...)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return out.table(t)
}

// A queueing is what has been seen of a line.
type queueing struct {
	began   int64 // when what counts began
	asked   []int64
	served  []possession  // those that count
	early   []possession  // those before
	longest time.Duration // of those that were not served
}

// standInLine has so many processes want a lock.
func standInLine(s settings, cluster *testcluster.Cluster, client string, processes int) (*queueing, error) {
	workers := make([]libraries.Waiter, processes)
	for i := range workers {
		own, end, err := newWaiters(order{Client: client, Addrs: cluster.Addrs(), TTL: s.ttl, Goroutines: 1})
		if err != nil {
			return nil, err
		}
		defer end()
		workers[i] = own[0]
	}
	began := time.Now().Add(s.warmUp)
	l := &queueing{began: began.UnixNano()}
	o := order{Goroutines: processes, Hold: lineHold, To: began.Add(lineTimes * s.contestTime)}
	ctx, cancel := context.WithDeadline(context.Background(), o.To)
	defer cancel()
	var mu sync.Mutex
	for _, p := range o.repeat(func(i int) (slot int, unlock func(context.Context) error, err error) {
		asked, err := time.Now(), errors.New("not yet")
		for err != nil && ctx.Err() == nil {
			err = workers[i].Lock(ctx, resource, 0) // redsync may use up its tries.
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			l.note(possession{Waited: time.Since(asked), From: time.Now().UnixNano()})
		}
		return 0, workers[i].Unlock, err
	}) {
		l.note(p)
	}
	return l, nil
}

// note notes a turn, or one that did not come before the end.
func (l *queueing) note(p possession) {
	l.asked = append(l.asked, p.From-int64(p.Waited))
	switch {
	case p.To == 0:
		l.longest = max(l.longest, p.Waited)
	case p.From < l.began:
		l.early = append(l.early, p)
	default:
		l.served = append(l.served, p)
	}
}

// ahead returns which share of those that were served had more than so many before them who had
// waited longer.
func (l *queueing) ahead(most int) float64 {
	slices.Sort(l.asked)
	turns := slices.Concat(l.early, l.served)
	slices.SortFunc(turns, func(a, b possession) int { return int(a.From - b.From) })
	waiting, next, ahead := []int64(nil), 0, 0
	for i, p := range turns {
		for ; next < len(l.asked) && l.asked[next] < p.From; next++ {
			waiting = append(waiting, l.asked[next])
		}
		place, _ := slices.BinarySearch(waiting, p.From-int64(p.Waited))
		waiting = slices.Delete(waiting, place, place+1)
		if i >= len(l.early) && place > most {
			ahead++
		}
	}
	return float64(ahead) / float64(max(len(l.served), 1))
}
