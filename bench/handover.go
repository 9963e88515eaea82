package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// The contended parts run their clients in processes of their own: this program
// again, with its order in this variable of its environment.
const orderVariable = "REDLOCK_BENCH_ORDER"

// An order is what a child process is to do.
type order struct {
	Role       string // contend, contest, hand, hold
	Client     string
	Addrs      []string
	Key        string
	Resources  []string // contest
	Polling    bool     // contest
	TTL        time.Duration
	Goroutines int
	Hold       time.Duration
	From, To   time.Time
}

// A possession is one turn: somebody had the lock. The times are those of the wall
// clock, which all processes of a machine share.
type possession struct {
	Who      int // the goroutine; the parent adds the process
	Waited   time.Duration
	From, To int64 // ns
}

// contenders are the settings that are compared.
var contenders = []struct {
	processes, goroutines int
	clients               []string
}{
	{4, 4, []string{"redlock", "redsync"}},
	{1, 16, []string{"redlock", "redsync"}},
	{32, 1, []string{"redlock", "redsync"}},
}

// handover measures how fast and how fairly a lock goes from hand to hand.
func handover(s settings, w io.Writer) error {
	t := newTable(fmt.Sprintf("One key, held for 1ms at a time, for %v. A turn is one time that somebody has it; a hand-over is a turn after somebody else's", s.contendTime),
		"processes x goroutines", "client", "hand-overs/s", "turns/s", "Jain fairness", "wait p50 ms", "wait p99 ms", "longest wait ms", "overlaps")
	for _, c := range contenders {
		for _, client := range c.clients {
			if s.only != "" && client != s.only {
				continue
			}
			possessions, err := contend(s, client, c.processes, c.goroutines)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%d x %d", c.processes, c.goroutines)
			t.add(append([]string{name, client}, judge(possessions, c.processes*c.goroutines, s.contendTime)...)...)
		}
	}
	return t.print(w)
}

// contend runs so many processes, each with so many goroutines.
func contend(s settings, client string, processes, goroutines int) (possessions []possession, err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	o := order{
		Role: "contend", Client: client, Addrs: cluster.Addrs(), Key: "contended", TTL: s.ttl,
		Goroutines: goroutines, Hold: time.Millisecond, From: time.Now().Add(time.Second), To: time.Now().Add(time.Second + s.contendTime),
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for p := range processes {
		wg.Go(func() {
			var own []possession
			e := obey(o, &own)
			mu.Lock()
			defer mu.Unlock()
			err = errors.Join(err, e)
			for _, t := range own {
				t.Who += p * goroutines
				possessions = append(possessions, t)
			}
		})
	}
	wg.Wait()
	return possessions, err
}

// obey runs a child process and decodes what it prints.
func obey(o order, result any) error {
	child, err := command(o)
	if err != nil {
		return err
	}
	out, err := child.Output()
	if err != nil {
		return fmt.Errorf("child process: %w", err)
	}
	return json.Unmarshal(out, result)
}

func command(o order) (*exec.Cmd, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), orderVariable+"="+string(text))
	c.Stderr = os.Stderr
	return c, nil
}

// carryOut is what a child process does.
func carryOut(text string, in io.Reader, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	switch o.Role {
	case "hand":
		return handOn(o, in, out)
	case "hold":
		return hold(o, out)
	case "contest":
		possessions, err := takePart(o)
		return errors.Join(err, json.NewEncoder(out).Encode(possessions))
	}
	lockers, err := newLockers(o)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var possessions []possession
	var wg sync.WaitGroup
	time.Sleep(time.Until(o.From)) // All begin together.
	for i, l := range lockers {
		wg.Go(func() {
			var own []possession
			for time.Now().Before(o.To) {
				asked := time.Now()
				if err := l.lock(context.Background(), o.Key); err != nil {
					continue
				}
				from := time.Now()
				time.Sleep(o.Hold)
				to := time.Now()
				_ = l.unlock(context.Background())
				own = append(own, possession{Who: i, Waited: from.Sub(asked), From: from.UnixNano(), To: to.UnixNano()})
			}
			mu.Lock()
			defer mu.Unlock()
			possessions = append(possessions, own...)
		})
	}
	wg.Wait()
	return json.NewEncoder(out).Encode(possessions)
}

// newLockers returns what the goroutines of a child lock with.
func newLockers(o order) ([]worker, error) {
	var lockers []worker
	if o.Client != "redlock" {
		c := newRedsync(o.Client, o.Addrs, o.TTL, o.Goroutines, false)
		for range o.Goroutines {
			l := c.newWorker().(*redsyncWorker)
			l.options = l.options[1:] // The default of 32 tries.
			lockers = append(lockers, l)
		}
		return lockers, nil
	}
	r, err := openRedlock(o.Addrs)
	if err != nil {
		return nil, err
	}
	for range o.Goroutines {
		lockers = append(lockers, &waiter{redlockWorker{r: r, ttl: o.TTL}})
	}
	return lockers, nil
}

// A waiter waits for its lock as long as it takes.
type waiter struct{ redlockWorker }

func (w *waiter) lock(ctx context.Context, key string) (err error) {
	w.held, err = w.r.Lock(ctx, []string{key}, w.ttl, redlock.WithRetryCount(-1))
	return err
}

// judge returns the cells of what the possessions amount to.
func judge(possessions []possession, holders int, length time.Duration) []string {
	slices.SortFunc(possessions, func(a, b possession) int { return int(a.From - b.From) })
	counts := make([]float64, holders)
	waits := make([]time.Duration, len(possessions))
	hands, overlaps := 0, 0
	for i, possession := range possessions {
		counts[possession.Who]++
		waits[i] = possession.Waited
		if i == 0 {
			continue
		}
		if possession.Who != possessions[i-1].Who {
			hands++
		}
		if possession.From < possessions[i-1].To {
			overlaps++
		}
	}
	slices.Sort(waits)
	longest := time.Duration(0)
	if len(waits) > 0 {
		longest = waits[len(waits)-1]
	}
	return []string{
		fmt.Sprintf("%.0f", float64(hands)/length.Seconds()), fmt.Sprintf("%.0f", float64(len(possessions))/length.Seconds()),
		fmt.Sprintf("%.3f", jain(counts)), millis(percentile(waits, 50)), millis(percentile(waits, 99)), millis(longest), fmt.Sprint(overlaps),
	}
}

// jain is Jain's index of fairness: 1 if all have the same share, 1/n if one has
// everything.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
