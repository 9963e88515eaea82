// Command peers runs other lock libraries and this one under the same schedules of faults, and says in a table what
// it saw of each.
//
//	go run ./peers -time 30s -seed 1
//	go run ./peers -time 30s -seed 1 -library redsync/redigo -faults kill
//
// docs/reliability.md says how to read the table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/course"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/peers/locker"
	"github.com/seed6c881748/redlock/test/tables"
)

type flags struct {
	time                     time.Duration
	seed                     uint64
	out, faults, lib, client string
}

func main() {
	var f flags
	flag.DurationVar(&f.time, "time", 30*time.Second, "how long each library runs under each group of faults")
	flag.Uint64Var(&f.seed, "seed", 1, "what the schedules are drawn from")
	flag.StringVar(&f.out, "out", filepath.Join("..", "build", "peers"), "the folder for the histories")
	flag.StringVar(&f.faults, "faults", "", "one group of faults only: a name in the table")
	flag.StringVar(&f.lib, "library", "", "one library only")
	flag.StringVar(&f.client, "client", "", "be a client process of this library")
	flag.Parse()
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(f flags) error {
	if f.client != "" {
		return locker.Run(f.client, os.Stdin, os.Stdout)
	}
	t := tables.New("", "faults", "library",
		"locks", "overlaps", "locks whose keys had ended", "keys left", "calls over 1 s")
	for _, g := range groups {
		for _, l := range peers {
			if f.faults != "" && f.faults != g.name || f.lib != "" && f.lib != l.name {
				continue
			}
			events, err := play(f, l, g)
			if err != nil {
				return fmt.Errorf("peers: %s, %s: %w", l.name, g.name, err)
			}
			row := append([]string{g.name, l.name}, count(events)...)
			t.Add(row...)
			fmt.Fprintln(os.Stderr, strings.Join(row, ", "))
		}
	}
	if len(t.Rows()) == 0 {
		return fmt.Errorf("peers: no library %q, or no faults %q", f.lib, f.faults)
	}
	_, err := fmt.Printf("%s, %s, %s, seed %d\n\n%s", history.Commit(), time.Now().UTC().Format(time.DateOnly),
		history.Server(), f.seed, t.Markdown())
	return err
}

// promised are the rules of ../judge that each library is to keep. support is for those whose tokens are known, and
// that lock on a quorum.
var promised = []string{"overlap", "support", "keys left", "bounds"}

// count returns how many locks there were, and how often each of the rules was broken: cells of the table.
func count(events []history.Event) []string {
	v := judge.Judge(events)
	cells := []string{fmt.Sprint(v.Locks.All)}
	for _, rule := range promised {
		cells = append(cells, fmt.Sprint(v.Rule(rule).Violations))
	}
	return cells
}

// A peer is a library on the course.
type peer struct {
	name   string
	quorum bool // It locks on a quorum, and tells its tokens.
}

var peers = []peer{
	{"redlock", false},
	{"redsync/redigo", true},
	{"redsync/goredis", true},
	{"node-redlock", true},
	{"rueidislock", false},
}

// command is that of a client process.
func (l peer) command() ([]string, error) {
	if l.name == "node-redlock" {
		return locker.Node()
	}
	self, err := os.Executable()
	return []string{self, "-client", l.name}, err
}

// without are the rules that are not counted of a library.
func (l peer) without() (names []string) {
	for _, r := range judge.Judge(nil).Rules {
		if !slices.Contains(promised, r.Rule) || r.Rule == "support" && !l.quorum {
			names = append(names, r.Rule)
		}
	}
	return names
}

// A group is a set of faults that strike one at a time on each series of the schedule.
type group struct {
	name, course string
	kinds        []string // Those of the course that are meant.
	doubled      int      // How often the ttl is doubled, besides.
}

var groups = []group{
	{"none", "none", nil, 0},
	{"kill", "kill", []string{plan.Kill}, 0},
	{"freeze", "freeze", []string{plan.Freeze}, 0},
	{"freeze most", "freeze", []string{plan.Most}, 0},
	{"resets", "network", []string{plan.Reset, plan.Cut, plan.Refuse}, 0},
	{"silence", "network", []string{plan.Drop, plan.Hole, plan.Slow}, 0},
	{"clients", "clients", []string{plan.Pause, plan.Crash}, 0},
	{"rolling", "rolling", []string{plan.Rolling}, 0},
}

// draw is the schedule of a group: the same for all libraries. Quarantine is redlock's alone, so it is off.
func (g group) draw(f flags) (*plan.Plan, error) {
	p, err := plan.Draw(f.seed, g.course, f.time, func(kind string) bool { return slices.Contains(g.kinds, kind) })
	if err != nil {
		return nil, err
	}
	const longer = 2 // Keys that are left behind would expire before they are noticed.
	p.MaxTTL, p.TTL, p.Resources = 0, p.TTL*longer<<g.doubled, p.Resources[:4]
	for i, fault := range p.Faults {
		if fault.Kind == plan.Pause || fault.Kind == plan.Most {
			p.Faults[i].For *= longer
		}
	}
	return p, nil
}

// play runs one library under one group of faults, and returns what happened.
func play(f flags, l peer, g group) ([]history.Event, error) {
	p, err := g.draw(f)
	if err != nil {
		return nil, err
	}
	client, err := l.command()
	if err != nil {
		return nil, err
	}
	if err = os.MkdirAll(f.out, 0o755); err != nil {
		return nil, err
	}
	name := strings.NewReplacer("/", "-", " ", "-").Replace(l.name+"-"+g.name) + ".jsonl"
	out, err := os.Create(filepath.Join(f.out, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	command := fmt.Sprintf("go run ./peers -time %v -seed %d -library %s -faults %q", f.time, f.seed, l.name, g.name)
	events, err := course.Run(ctx, course.Options{
		Plan: p, Command: client, History: out,
		Hang: locker.Patience + 11*time.Second, // For a call that should have returned.
		Header: history.Header{
			Library: l.name, Commit: history.Commit(), Command: command, Without: l.without(),
			// A busy machine may delay what a client hears that does not tell when it did not run.
			SignalSlack: int64(2 * time.Second), OverlapSlack: int64(2 * time.Millisecond),
		},
	})
	if errors.Is(err, course.ErrStuck) { // Which is counted as a call that hangs.
		err = nil
	}
	return events, err
}
