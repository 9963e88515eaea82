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
	"runtime/pprof"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == asChild {
		if err := carryOut(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	s, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err == nil && s.smoke:
		err = smoke(s, os.Stdout)
	case err == nil:
		err = run(s, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the parts. One that fails does not keep the others from running; the document
// keeps what it says of it.
func run(s settings, w io.Writer) (err error) {
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
	stop, err := startProfile(s.cpuProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
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
	if err := out.check(p.plots); err != nil || s.write == "" {
		return err
	}
	return document{s.write}.write(out, measuredWith)
}

// startProfile starts a CPU profile, and returns what ends it.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
