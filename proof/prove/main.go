// Command prove runs everything that shows from outside whether redlock keeps its promises, and writes one report:
// DIR/report.html for people and DIR/report.json.
//
//	go run ./prove -out DIR
//
// It takes 15 minutes at most, or -time: each step has a share, which says how large it is, and is ended when that is over.
// What an earlier step has left of its own is added. Each step is a command that can be run by itself: the report names it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	out := flags.String("out", filepath.Join("..", "build", "prove"), "the folder for the report")
	seed := flags.Uint64("seed", uint64(time.Now().Unix()), "the first seed of the simulation, and that of the faults; default: another one each time")
	whole := flags.Duration("time", 15*time.Minute, "how long all steps may take together")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder, err := filepath.Abs(*out)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	all := steps(*whole, *seed, folder)
	r := begin(*seed)
	ends := shared(*whole, all, r.Started)
	for i, s := range all {
		fmt.Printf("%s: %s\n", s.Title, s.command())
		done := s.run(ctx, ends[i])
		r.Steps = append(r.Steps, done)
		fmt.Printf("  %s in %.0f s: %s\n", done.Result, done.Seconds, done.Says)
	}
	r.end()
	if err = r.write(folder); err != nil {
		return err
	}
	fmt.Printf("%s\nreport: %s\n", r.Says, filepath.Join(folder, "report.html"))
	if !r.OK {
		return errors.New("not everything passed")
	}
	return nil
}
