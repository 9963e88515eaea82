// Command chaos runs real servers and several client processes of the library under faults that are drawn from a
// seed, writes down everything that happens, and judges it.
//
//	go run ./chaos -time 1m -seed 7 -out ../build/chaos
//	go run ./chaos -time 1m -seed 7 -print                 # the schedule only
//	go run ./chaos -judge ../build/chaos/history.jsonl     # judges an earlier run again
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/client"
	"github.com/seed6c881748/redlock/proof/chaos/course"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/peers/locker"
)

// The library's default allowance for clocks.
const (
	drift      = 0.01
	driftLeast = int64(2 * time.Millisecond)
)

type flags struct {
	time   time.Duration
	seed   uint64
	out    string
	course string
	judge  string
	print  bool
	guest  string
	client bool
}

func main() {
	f, err := parse(os.Args[1:])
	if err == nil {
		err = run(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// parse reads the command line. What is behind a word that is no flag would be left out without a word.
func parse(args []string) (f flags, err error) {
	flag := flag.NewFlagSet("chaos", flag.ExitOnError)
	flag.DurationVar(&f.time, "time", time.Minute, "how long faults go on")
	flag.Uint64Var(&f.seed, "seed", 1, "what the schedule is drawn from")
	flag.StringVar(&f.out, "out", filepath.Join("..", "build", "chaos"), "the folder for what the run leaves")
	flag.StringVar(&f.course, "course", "all", "which faults: "+strings.Join(plan.Names(), ", "))
	flag.StringVar(&f.judge, "judge", "", "judge the history in this file, which may be a .gz, again, and run nothing")
	flag.BoolVar(&f.print, "print", false, "print the schedule, and run nothing")
	flag.StringVar(&f.guest, "guest", "", "be a client process of this other library")
	flag.BoolVar(&f.client, "client", false, "be a client process of a run")
	_ = flag.Parse(args) // It exits.
	if flag.NArg() > 0 {
		err = fmt.Errorf("chaos: what is %q?", flag.Arg(0))
	}
	return f, err
}

func run(f flags) error {
	if f.client {
		return client.Run(os.Stdin, os.Stdout)
	}
	if f.guest != "" {
		return locker.Run(f.guest, os.Stdin, os.Stdout)
	}
	if f.judge != "" {
		return rejudge(f.judge)
	}
	p, err := plan.Draw(f.seed, f.course, f.time, available)
	if err != nil {
		return err
	}
	if f.print {
		p.Print(os.Stdout)
		return nil
	}
	return play(f, p)
}

// play runs the plan, and concludes.
func play(f flags, p *plan.Plan) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err = os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	name := filepath.Join(f.out, "history.jsonl")
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	var schedule bytes.Buffer
	p.Print(&schedule)
	if err = os.WriteFile(filepath.Join(f.out, "schedule.txt"), schedule.Bytes(), 0o644); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Printf("faults for %v, until %s; then the verdict\n", f.time, time.Now().Add(f.time).Format(time.TimeOnly))
	versions := map[string]string{"go": runtime.Version(), "system": runtime.GOOS + "/" + runtime.GOARCH, "server": history.Server()}
	opts := course.Options{
		Plan: p, Command: []string{self, "-client"}, Ours: true, History: out,
		Header: history.Header{
			Library: "redlock", Commit: history.Commit(), Versions: versions, Fences: len(p.Fenced) > 0, Drift: drift, DriftLeast: driftLeast, Command: command(f),
			SignalSlack: int64(protocol.SignalSlack),
		},
	}
	if p.Course == plan.Fleet {
		if opts.Guests, err = fleet(self); err != nil {
			return err
		}
	}
	events, err := course.Run(ctx, opts)
	if err != nil {
		return fmt.Errorf("the run was not finished: %w\nreplay: %s", err, command(f))
	}
	return conclude(name, events)
}

// fleet are the commands of clients of other libraries. Without node there is one less, except in CI.
func fleet(self string) ([][]string, error) {
	guests := [][]string{{self, "-guest", "redsync/goredis"}}
	command, err := locker.Node()
	switch {
	case err == nil:
		guests = append(guests, command)
	case os.Getenv("CI") == "true":
		return nil, err
	default:
		fmt.Fprintf(os.Stderr, "left out: node-redlock: %v\n", err)
	}
	return guests, nil
}

// rejudge concludes from the history of an earlier run.
func rejudge(name string) error {
	events, err := history.ReadFile(name)
	if err != nil {
		return err
	}
	return conclude(name, events)
}

// command is what replays the schedule.
func command(f flags) string {
	s := fmt.Sprintf("cd proof && go run ./chaos -time %v -seed %d -course %s", f.time, f.seed, f.course)
	return s
}

// available reports whether this machine can have such a fault, and says so if not.
func available(kind string) bool {
	var err error
	if kind == plan.Clock || kind == plan.Rate {
		err = course.HasClocks()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "left out: %v\n", err)
	}
	return err == nil
}
