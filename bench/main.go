// Command bench compares package redlock with other libraries on real redis-server
// processes, which it starts itself on free loopback ports.
//
// Clients, nodes and whatever else the machine runs share its processors, so
// absolute figures belong to one machine and one moment. The clients therefore
// take turns within one run, round by round, and it is the ratios that count.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// A part is one measurement.
type part struct {
	name string
	run  func(settings, *section) error
}

// parts are in the order in which they run.
var parts = []part{
	{"libraries", listLibraries}, // client.go
	{"throughput", onNodes(throughput)},
	{"nodes", byNodes},   // throughput.go
	{"latency", latency}, // throughput.go
	{"resources", onNodes(resources)},
	{"fencing", onNodes(fencing)},       // options.go
	{"quarantine", onNodes(quarantine)}, // options.go
	{"minority", minority},
	{"contention", contention},
	{"line", inLine},
	{"hot", hot},
	{"semaphore", permits},
	{"overload", onNodes(overload)},
}

// onNodes has a part measure on servers of its own, as many as the flags say.
func onNodes(run func(settings, *section, *testcluster.Cluster) error) func(settings, *section) error {
	return func(s settings, out *section) error {
		return onServers(s.nodes, func(cluster *testcluster.Cluster) error { return run(s, out, cluster) })
	}
}

func onServers(number int, run func(*testcluster.Cluster) error) error {
	cluster, err := testcluster.StartServers(number)
	if err != nil {
		return err
	}
	return errors.Join(run(cluster), cluster.Close())
}

func partNames() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

func main() {
	if err := start(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(args []string) error {
	s, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	if s.smoke {
		return smoke(s, os.Stdout)
	}
	return run(s, os.Stdout)
}

// run runs the parts. One that fails does not keep the others from running; the document
// keeps what it says of it.
func run(s settings, w io.Writer) error {
	measuredWith, err := environment(s)
	if err != nil {
		return err
	}
	if s.write != "" {
		if err = (document{s.write}).check(s.parts); err != nil {
			return err
		}
	}
	if _, err = fmt.Fprintln(w, measuredWith); err != nil {
		return err
	}
	for _, p := range s.parts {
		start := time.Now()
		if e := p.report(s, w, measuredWith); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", p.name, e))
		}
		if _, e := fmt.Fprintf(w, "\n%s: %v\n", p.name, time.Since(start).Round(time.Second/10)); e != nil {
			return errors.Join(err, e) // Nobody would see the rest.
		}
	}
	return err
}

// report runs one part, and writes what it reports into the document if there is one.
func (p part) report(s settings, w io.Writer, measuredWith string) error {
	out := &section{name: p.name, out: w}
	if err := p.run(s, out); err != nil {
		return err
	}
	if out.tables == 0 {
		return errors.New("no table")
	}
	if s.write == "" {
		return nil
	}
	return document{s.write}.write(out, measuredWith)
}
