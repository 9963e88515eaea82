package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/proof/chaos/course"
	"github.com/seed6c881748/redlock/proof/chaos/monotime"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/history"
)

// A peer is a library on the course.
type peer struct {
	name    string
	modules []string // Whose versions count.
	servers int      // How many it locks on: 0 for all of the course's.
	wakes   bool     // It says that releases wake up those who wait.
	command func(self string) ([]string, error)
}

var libraries = []peer{
	{name: "redlock", wakes: true, modules: []string{"github.com/seed6c881748/redlock"}, command: inGo("redlock")},
	{
		name: "redsync/redigo", command: inGo("redsync/redigo"),
		modules: []string{"github.com/go-redsync/redsync/v4", "github.com/gomodule/redigo"},
	},
	{
		name: "redsync/goredis", command: inGo("redsync/goredis"),
		modules: []string{"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9"},
	},
	{name: "node-redlock", modules: []string{"redlock5", "ioredis"}, command: inNode},
	{
		name: "rueidislock", servers: 1, wakes: true, command: inGo("rueidislock"),
		modules: []string{"github.com/redis/rueidis"},
	},
}

// A group is a set of faults that strike one at a time on each series of the schedule.
type group struct {
	name, course string
	kinds        []string // Those of the course that are meant.
}

var groups = []group{
	{"none", "none", nil},
	{"kill", "kill", []string{plan.Kill}},
	{"freeze", "freeze", []string{plan.Freeze, plan.Most}},
	{"break", "network", []string{plan.Reset, plan.Cut, plan.Refuse}},
	{"silence", "network", []string{plan.Drop, plan.Hole, plan.Slow}},
	{"clients", "clients", []string{plan.Pause, plan.Crash}},
	{"rolling", "rolling", []string{plan.Rolling}},
}

func groupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

func libraryNames() (names []string) {
	for _, l := range libraries {
		names = append(names, l.name)
	}
	return names
}

func inGo(name string) func(self string) ([]string, error) {
	return func(self string) ([]string, error) { return []string{self, "-client", name}, nil }
}

// inNode is the client in JavaScript, which finds its library where compat/node has installed it.
func inNode(string) ([]string, error) {
	if err := node.Install(); err != nil {
		return nil, err
	}
	script, err := filepath.Abs(filepath.Join(node.Folder(), "..", "..", "proof", "peers", "client.js"))
	if err != nil {
		return nil, err
	}
	return []string{"env", "NODE_PATH=" + filepath.Join(node.Folder(), "node_modules"), "node", script}, nil
}

// longer is how many times longer the ttl is than in the plan, and with it what is as long as a ttl: keys that are left
// behind would expire before they are noticed.
const longer = 2

// draw is the schedule of a group: the same for all libraries. Quarantine is redlock's alone, so it is off.
func draw(f flags, g group) (*plan.Plan, error) {
	p, err := plan.Draw(f.seed, g.course, f.time, func(kind string) bool { return slices.Contains(g.kinds, kind) })
	if err != nil {
		return nil, err
	}
	p.MaxTTL, p.TTL = 0, p.TTL*longer
	for i, fault := range p.Faults {
		if fault.Kind == plan.Pause || fault.Kind == plan.Most {
			p.Faults[i].For *= longer
		}
	}
	return p, nil
}

// redlocksOwn are rules of ../judge that are promises of redlock: a history can be judged again without them.
var redlocksOwn = []string{
	"lease model", "fence order", "register", "waiters", "loss signal", "release outcome", "keys left", "bounds",
}

// play runs one library under one group of faults.
func play(f flags, l peer, g group) (Figures, error) {
	p, err := draw(f, g)
	if err != nil {
		return Figures{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return Figures{}, err
	}
	client, err := l.command(self)
	if err != nil {
		return Figures{}, err
	}
	file := filepath.Join(f.out, strings.ReplaceAll(l.name, "/", "-")+"-"+g.name+".jsonl")
	if err = os.MkdirAll(f.out, 0o755); err != nil {
		return Figures{}, err
	}
	out, err := os.Create(file)
	if err != nil {
		return Figures{}, err
	}
	defer func() { _ = out.Close() }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	w := watchers{peer: l, resources: p.Resources}
	events, err := course.Run(ctx, course.Options{
		Plan: p, Command: client, History: out, Started: w.start, Hang: patience + hung + slow,
		Header: history.Header{
			Library: l.name, Commit: commit(), Versions: versions(l), Command: command(f, l, g), Without: redlocksOwn,
		},
	})
	samples := w.stop()
	if err != nil && !errors.Is(err, course.ErrStuck) { // Which is counted as a call that hangs.
		return Figures{}, err
	}
	t := tally(events, samples, p.TTL, l.wakes)
	t.Library, t.Version, t.Faults, t.Seed, t.Seconds = l.name, versions(l)[l.modules[0]], g.name, f.seed, int(f.time/time.Second)
	return t, nil
}

func command(f flags, l peer, g group) string {
	return fmt.Sprintf("go run ./peers -time %v -seed %d -library %s -faults %s", f.time, f.seed, l.name, g.name)
}

// watchers look at the keys of all servers during a run.
type watchers struct {
	peer      peer
	resources []string

	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	samples []sample
}

func (w *watchers) start(start int64, servers []string) {
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	if w.peer.servers > 0 {
		servers = servers[:w.peer.servers]
	}
	keys := make(map[string]string)
	for _, r := range w.resources {
		keys[r] = r
		if name := keyOf[w.peer.name]; name != nil {
			keys[r] = name(r)
		}
	}
	clock := monotime.Since(start)
	for i, addr := range servers {
		w.running.Go(func() {
			seen := watch(ctx, i, addr, keys, clock.Now)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.samples = append(w.samples, seen...)
		})
	}
}

// stop returns what was seen, in the order of time and in the words of the history.
func (w *watchers) stop() []sample {
	if w.cancel != nil {
		w.cancel()
	}
	w.running.Wait()
	slices.SortStableFunc(w.samples, func(a, b sample) int { return int(a.at - b.at) })
	if value := valueOf[w.peer.name]; value != nil {
		for i, s := range w.samples {
			w.samples[i].value = value(s.value)
		}
	}
	return w.samples
}
