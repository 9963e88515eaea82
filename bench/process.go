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
	"github.com/seed6c881748/redlock/test/child"
)

// asChild is the argument with which this program is one of the processes of a contest: its order is
// the first line of its input.
const asChild = "child"

// An order is what a child process is to do.
type order struct {
	Role       string // contend, permits, hot
	Client     string // contend
	Addrs      []string
	Permits    int // permits
	TTL        time.Duration
	Goroutines int
	Hold       time.Duration
	Turn       time.Duration // hot; 0: none
	From, To   time.Time
	Counted    time.Time // turns that were asked for before it are not told
}

// resource is what all of a contest want.
const resource = "contested"

// A possession is one turn: somebody had the lock. The times are those of the wall
// clock, which all processes of a machine share.
type possession struct {
	Who      int // the goroutine, of all processes together
	Slot     int `json:",omitempty"` // of a permit
	Waited   time.Duration
	From, To int64 // ns
}

// obey runs so many processes with the same order, and returns what each of them tells.
func obey[T any](o order, processes int) ([]T, error) {
	told, failed := make([]T, processes), make([]error, processes)
	var wg sync.WaitGroup
	for i := range processes {
		wg.Go(func() { failed[i] = o.tellTo(&told[i]) })
	}
	wg.Wait()
	return told, errors.Join(failed...)
}

func (o order) tellTo(answer any) error {
	p, err := child.Start(child.Self(asChild))
	if err != nil {
		return err
	}
	err = p.Say(o)
	line, e := p.Line()
	if err = errors.Join(err, e, p.Close()); err != nil {
		return fmt.Errorf("child process: %w", err)
	}
	return json.Unmarshal([]byte(line), answer)
}

// together returns the turns of all processes, whose goroutines are counted on.
func (o order) together(told [][]possession) (all []possession) {
	for process, turns := range told {
		for _, t := range turns {
			t.Who += process * o.Goroutines
			all = append(all, t)
		}
	}
	return all
}

// carryOut is what a child process does.
func carryOut(in io.Reader, out io.Writer) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	var told any
	var err error
	switch o.Role {
	case "hot":
		told, err = heatUp(o)
	case "permits":
		told, err = usePermits(o)
	default:
		told, err = contend(o)
	}
	return errors.Join(err, json.NewEncoder(out).Encode(told))
}

// contend has goroutines lock, hold and unlock again and again.
func contend(o order) ([]possession, error) {
	workers, end, err := newWaiters(o)
	if err != nil {
		return nil, err
	}
	defer end()
	return o.repeat(func(i int) (slot int, unlock func(context.Context) error, err error) {
		return 0, workers[i].Unlock, workers[i].Lock(context.Background(), resource, 0)
	}), nil
}

// newWaiters returns what the goroutines of a process lock with, and what ends it.
func newWaiters(o order) (workers []libraries.Waiter, end func(), err error) {
	c, err := peers[o.Client].Open(withConnections(o.Addrs, o.TTL, o.Goroutines))
	if err != nil {
		return nil, nil, err
	}
	for range o.Goroutines {
		workers = append(workers, c.NewWorker().(libraries.Waiter))
	}
	return workers, c.Close, nil
}

// repeat has all goroutines lock, hold and unlock in the time of the order, and returns their turns.
func (o order) repeat(lock func(i int) (slot int, unlock func(context.Context) error, err error)) (turns []possession) {
	all := make([][]possession, o.Goroutines)
	var wg sync.WaitGroup
	time.Sleep(time.Until(o.From)) // All begin together.
	for i := range all {
		wg.Go(func() {
			for time.Now().Before(o.To) {
				asked := time.Now()
				slot, unlock, err := lock(i)
				if err != nil {
					continue
				}
				from := time.Now()
				if o.Hold > 0 {
					time.Sleep(o.Hold)
				}
				to := time.Now()
				_ = unlock(context.Background())
				if asked.After(o.Counted) {
					all[i] = append(all[i], possession{i, slot, from.Sub(asked), from.UnixNano(), to.UnixNano()})
				}
			}
		})
	}
	wg.Wait()
	for _, own := range all {
		turns = append(turns, own...)
	}
	return turns
}
