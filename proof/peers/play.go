package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/bench/libraries"
	"github.com/seed6c881748/redlock/proof/chaos/course"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/peers/locker"
)

// A peer is a library on the course.
type peer struct {
	name    string
	modules []string // Whose versions count.
	wakes   bool     // It says that releases wake up those who wait.
	command func() ([]string, error)
}

var peers = []peer{
	{name: "redlock", wakes: true, modules: []string{"github.com/seed6c881748/redlock"}, command: inGo("redlock")},
	{name: "redsync/redigo", command: inGo("redsync/redigo"), modules: locker.Libraries["redsync/redigo"].Modules},
	{name: "redsync/goredis", command: inGo("redsync/goredis"), modules: locker.Libraries["redsync/goredis"].Modules},
	{name: "node-redlock", modules: []string{"redlock5", "ioredis"}, command: locker.Node},
	{name: "rueidislock", wakes: true, command: inGo("rueidislock"), modules: libraries.Rueidislock.Modules},
}

func inGo(name string) func() ([]string, error) {
	return func() ([]string, error) {
		self, err := os.Executable()
		return []string{self, "-client", name}, err
	}
}

// redlocksOwn are rules of ../judge that are promises of redlock: a history can be judged again without them.
var redlocksOwn = []string{
	"fence order", "register", "support", "steps", "quarantine", "kept", "next in line", "waiters", "loss signal", "validity", "early loss",
	"release outcome", "released", "keys left", "bounds", "min hold", "hold limits", "wanted", "permits", "guard", "owners",
}

// signalSlack is by how much a busy machine may delay what a client hears that does not tell when it did not run.
const signalSlack = 2 * time.Second

// play runs one library under one group of faults.
func play(f flags, l peer, g group) (Figures, error) {
	p, err := g.draw(f, g)
	if err != nil {
		return Figures{}, err
	}
	client, err := l.command()
	if err != nil {
		return Figures{}, err
	}
	file := filepath.Join(f.out, strings.NewReplacer("/", "-", " ", "-").Replace(l.name+"-"+g.name)+".jsonl")
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
	command := fmt.Sprintf("go run ./peers -time %v -seed %d -library %s -faults %q", f.time, f.seed, l.name, g.name)
	events, err := course.Run(ctx, course.Options{
		Plan: p, Command: client, History: out, Hang: locker.Patience + judge.Hung + judge.Slow,
		Header: history.Header{
			Library: l.name, Commit: history.Commit(), Versions: versions(l), Command: command, Without: redlocksOwn,
			SignalSlack: int64(signalSlack),
		},
	})
	if err != nil && !errors.Is(err, course.ErrStuck) { // Which is counted as a call that hangs.
		return Figures{}, err
	}
	return Figures{
		Library: l.name, Version: versions(l)[l.modules[0]], Faults: g.name, Seed: f.seed, Seconds: int(f.time / time.Second),
		Tally: judge.Count(events, l.wakes),
	}, nil
}
