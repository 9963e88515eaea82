package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/child"
)

// asChild is the argument with which this program is one of the processes of a contended part: its order is
// the first line of its input.
const asChild = "child"

// An order is what a child process is to do.
type order struct {
	Role       string // contend, permits, hand, hold, hot
	Client     string
	Addrs      []string
	Resources  []string
	Polling    bool // contend
	Permits    int  // permits
	TTL        time.Duration
	Goroutines int
	Hold       time.Duration
	Turn       time.Duration // hot: 0: none
	From, To   time.Time
	Counted    time.Time // turns that were asked for before it are not told
}

// A possession is one turn: somebody had the lock. The times are those of the wall
// clock, which all processes of a machine share.
type possession struct {
	Who, Process int // the goroutine, of all processes together; the parent adds the process
	Slot         int `json:",omitempty"` // of a permit
	Waited       time.Duration
	From, To     int64 // ns
}

// startChild starts a process with its order.
func startChild(o order) (*child.Process, error) {
	p, err := child.Start(child.Self(asChild))
	if err != nil {
		return nil, err
	}
	return p, p.Say(o)
}

// obey runs a process for each order, and returns what they have done. Processes and goroutines are counted on.
func obey(orders []order) (turns []possession, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	before := 0
	for number, o := range orders {
		first := before
		before += o.Goroutines
		wg.Go(func() {
			own, e := obeyed(o)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			for _, t := range own {
				t.Who, t.Process = t.Who+first, number
				turns = append(turns, t)
			}
		})
	}
	wg.Wait()
	return turns, err
}

func obeyed(o order) (turns []possession, err error) {
	line, err := told(o)
	if err != nil {
		return nil, err
	}
	return turns, json.Unmarshal([]byte(line), &turns)
}

// told runs a process, and returns what it says.
func told(o order) (line string, err error) {
	p, err := startChild(o)
	if err != nil {
		return "", err
	}
	line, err = p.Line()
	if err = errors.Join(err, p.Close()); err != nil {
		return "", fmt.Errorf("child process: %w", err)
	}
	return line, nil
}

// carryOut is what a child process does.
func carryOut(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	var o order
	if !lines.Scan() {
		return errors.New("no order")
	}
	if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
		return err
	}
	switch o.Role {
	case "hand":
		return handOn(o, lines, out)
	case "hold":
		return hold(o, out)
	case "hot":
		return heatUp(o, out)
	}
	do := contend
	if o.Role == "permits" {
		do = usePermits
	}
	turns, err := do(o)
	return errors.Join(err, json.NewEncoder(out).Encode(turns))
}

// contend has goroutines lock, hold and unlock again and again.
func contend(o order) ([]possession, error) {
	workers, end, err := newWaiters(o)
	if err != nil {
		return nil, err
	}
	defer end()
	return o.repeat(func(i int) (slot int, unlock func(context.Context) error, err error) {
		if w, ok := workers[i].(libraries.SetWaiter); ok {
			err = w.LockSet(context.Background(), o.Resources, 0)
		} else {
			err = workers[i].Lock(context.Background(), o.Resources[0], 0)
		}
		return 0, workers[i].Unlock, err
	}), nil
}

// newWaiters returns what the goroutines of a process lock with, and what ends it.
func newWaiters(o order) (workers []libraries.Waiter, end func(), err error) {
	var c client
	switch {
	case o.Client != "redlock":
		c, err = newRedsync(o.Addrs, o.TTL, o.Goroutines)
	case o.Polling:
		c, err = libraries.Ours("", "", redlock.WithPolling()).Open(opening{Addrs: o.Addrs, TTL: o.TTL})
	default:
		c, err = libraries.Redlock.Open(opening{Addrs: o.Addrs, TTL: o.TTL})
	}
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
					all[i] = append(all[i], possession{Who: i, Slot: slot, Waited: from.Sub(asked), From: from.UnixNano(), To: to.UnixNano()})
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
