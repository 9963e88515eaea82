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
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/course"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/peers/locker"
)

// A peer is a library on the course.
type peer struct {
	name    string
	quorum  bool // It locks on a quorum, and tells its tokens.
	command func() ([]string, error)
}

var peers = []peer{
	{name: "redlock", command: inGo("redlock")},
	{name: "redsync/redigo", quorum: true, command: inGo("redsync/redigo")},
	{name: "redsync/goredis", quorum: true, command: inGo("redsync/goredis")},
	{name: "node-redlock", quorum: true, command: locker.Node},
	{name: "rueidislock", command: inGo("rueidislock")},
}

func inGo(name string) func() ([]string, error) {
	return func() ([]string, error) {
		self, err := os.Executable()
		return []string{self, "-client", name}, err
	}
}

// promised are the rules of ../judge that each of them is to keep. support is for those whose tokens are known, and that lock
// on a quorum.
var promised = []string{"overlap", "support", "keys left", "bounds"}

// without are the rules that are not counted of a library.
func without(l peer) (names []string) {
	for _, r := range judge.Judge(nil).Rules {
		if !slices.Contains(promised, r.Rule) || r.Rule == "support" && !l.quorum {
			names = append(names, r.Rule)
		}
	}
	return names
}

// hung is how long the run waits for a call that should have returned.
const hung = 11 * time.Second

// signalSlack is by how much a busy machine may delay what a client hears that does not tell when it did not run.
const signalSlack = 2 * time.Second

// play runs one library under one group of faults.
func play(f flags, l peer, g group) (Figures, error) {
	p, err := draw(f, g)
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
		Plan: p, Command: client, History: out, Hang: locker.Patience + hung,
		Header: history.Header{
			Library: l.name, Commit: history.Commit(), Command: command, Without: without(l),
			SignalSlack: int64(signalSlack), OverlapSlack: int64(2 * time.Millisecond),
		},
	})
	if err != nil && !errors.Is(err, course.ErrStuck) { // Which is counted as a call that hangs.
		return Figures{}, err
	}
	return figuresOf(l.name, g.name, events), nil
}
