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

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/bench/plot"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The contended parts run their clients in processes of their own: this program
// again, with its order in this variable of its environment.
const orderVariable = "REDLOCK_BENCH_ORDER"

// An order is what a child process is to do.
type order struct {
	Role       string // contend, contest, permits, hand, hold
	Client     string
	Addrs      []string
	Key        string
	Resources  []string // contest
	Polling    bool     // contest
	Permits    int      // permits
	TTL        time.Duration
	Goroutines int
	Hold       time.Duration
	From, To   time.Time
	Counted    time.Time // contest: turns that were asked for before it are not told
}

// A possession is one turn: somebody had the lock. The times are those of the wall
// clock, which all processes of a machine share.
type possession struct {
	Who      int // the goroutine; the parent adds the process
	Waited   time.Duration
	From, To int64 // ns
}

// contenders are the groups of processes that contend, each with its clients in turn.
var contenders = []struct{ processes, goroutines int }{{4, 4}, {1, 16}, {32, 1}}

// contendHolds are the times for which they hold the lock.
var contendHolds = []time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// contendClients are the libraries that are compared.
var contendClients = []string{"redlock", "redsync"}

// handover measures how fast and how fairly a lock goes from hand to hand.
func handover(s settings, out *section) error {
	t := newTable(fmt.Sprintf("Processes contend for one key for %v. A turn is one possession of the key; a hand-over is a turn after somebody else's. "+
		"Fairness is Jain's index over the goroutines' turns: 1 is equal shares", s.contendTime),
		"processes x goroutines", "hold", "client", "hand-overs/s", "turns/s", "fairness", "wait p50 ms", "wait p99 ms", "longest wait ms", "overlaps")
	var rates, shares []plot.Row
	for _, hold := range contendHolds {
		for _, c := range contenders {
			name := fmt.Sprintf("%d x %d", c.processes, c.goroutines)
			if !s.contests.MatchString(fmt.Sprint(name, ", ", hold)) {
				continue
			}
			rate, share := map[string]float64{}, map[string]float64{}
			for _, client := range contendClients {
				possessions, err := contend(s, client, c.processes, c.goroutines, hold)
				if err != nil {
					return err
				}
				b := judge(possessions, c.processes*c.goroutines, s.contendTime)
				t.add(append([]string{name, hold.String(), client}, b.cells()...)...)
				rate[client], share[client] = b.hands, b.fairness
			}
			row := fmt.Sprintf("%d × %d, %d ms", c.processes, c.goroutines, hold.Milliseconds())
			rates, shares = append(rates, plot.Row{Name: row, Values: rate}), append(shares, plot.Row{Name: row, Values: share})
		}
	}
	return errors.Join(out.table(t), drawContention(out, rates, shares))
}

// contend runs so many processes, each with so many goroutines.
func contend(s settings, client string, processes, goroutines int, hold time.Duration) (possessions []possession, err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	from := time.Now().Add(time.Second) // All processes have started by then.
	o := order{
		Role: "contend", Client: client, Addrs: cluster.Addrs(), Key: "contended", TTL: s.ttl,
		Goroutines: goroutines, Hold: hold, From: from, To: from.Add(s.contendTime),
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
	case "permits":
		turns, err := usePermits(o)
		return errors.Join(err, json.NewEncoder(out).Encode(turns))
	case "contest":
		possessions, err := takePart(o)
		return errors.Join(err, json.NewEncoder(out).Encode(possessions))
	}
	lockers, end, err := newLockers(o)
	if err != nil {
		return err
	}
	defer end()
	var mu sync.Mutex
	var possessions []possession
	var wg sync.WaitGroup
	time.Sleep(time.Until(o.From)) // All begin together.
	for i, l := range lockers {
		wg.Go(func() {
			var own []possession
			for time.Now().Before(o.To) {
				asked := time.Now()
				if err := l.Lock(context.Background(), o.Key, 0); err != nil {
					continue
				}
				from := time.Now()
				if o.Hold > 0 {
					time.Sleep(o.Hold)
				}
				to := time.Now()
				_ = l.Unlock(context.Background())
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

// newLockers returns what the goroutines of a process lock with, and what ends it.
func newLockers(o order) (lockers []libraries.Waiter, end func(), err error) {
	var c client
	if o.Client == "redlock" {
		c, err = libraries.Redlock.Open(opening{Addrs: o.Addrs, TTL: o.TTL})
	} else {
		c, err = newRedsync(o.Addrs, o.TTL, o.Goroutines)
	}
	if err != nil {
		return nil, nil, err
	}
	for range o.Goroutines {
		lockers = append(lockers, c.NewWorker().(libraries.Waiter))
	}
	return lockers, c.Close, nil
}

// A bout is what the possessions of one contest amount to.
type bout struct {
	hands, turns      float64 // per second
	fairness          float64
	p50, p99, longest time.Duration // of the waits
	overlaps          int
}

// judge sums the possessions up.
func judge(possessions []possession, holders int, length time.Duration) bout {
	slices.SortFunc(possessions, func(a, b possession) int { return int(a.From - b.From) })
	counts := make([]float64, holders)
	waits := make([]time.Duration, len(possessions))
	hands, b := 0, bout{}
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
			b.overlaps++
		}
	}
	slices.Sort(waits)
	b.hands, b.turns = float64(hands)/length.Seconds(), float64(len(possessions))/length.Seconds()
	b.fairness = jain(counts)
	b.p50, b.p99, b.longest = percentile(waits, 50), percentile(waits, 99), percentile(waits, 100)
	return b
}

func (b bout) cells() []string {
	return []string{
		fmt.Sprintf("%.0f", b.hands), fmt.Sprintf("%.0f", b.turns), fmt.Sprintf("%.3f", b.fairness),
		millis(b.p50), millis(b.p99), millis(b.longest), fmt.Sprint(b.overlaps),
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
