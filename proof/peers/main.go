// Command peers runs other lock libraries and this one under the same schedules of faults, and says in a table what
// it saw of each.
//
//	go run ./peers -time 30s -seed 1
//	go run ./peers -time 30s -seed 1 -library redsync/redigo -faults kill
//
// docs/reliability.md says how to read the table.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed6c881748/redlock/proof/peers/locker"
)

type flags struct {
	time   time.Duration
	seed   uint64
	out    string
	faults string
	lib    string
	client string
}

func main() {
	var f flags
	flag.DurationVar(&f.time, "time", 30*time.Second, "how long each library runs under each group of faults")
	flag.Uint64Var(&f.seed, "seed", 1, "what the schedules are drawn from")
	flag.StringVar(&f.out, "out", filepath.Join("..", "build", "peers"), "the folder for the table and the histories")
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
	var all []Figures
	for _, g := range groups {
		for _, l := range peers {
			if f.faults != "" && f.faults != g.name || f.lib != "" && f.lib != l.name {
				continue
			}
			figures, err := play(f, l, g)
			if err != nil {
				return fmt.Errorf("peers: %s, %s: %w", l.name, g.name, err)
			}
			all = append(all, figures)
			fmt.Fprintf(os.Stderr, "%s, %s: %s\n", g.name, l.name, figures.short())
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("peers: no library %q, or no faults %q", f.lib, f.faults)
	}
	return write(os.Stdout, f, all)
}
