package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// smokeFlags have every part do as little as it can.
const smokeFlags = "-nodes 3 -ttl 4s -rounds 1 -time 30ms -goroutines 64 -node-counts 1,3 -held 1000 -blocks 1 -block 5 -settle 100ms -fault-time 200ms " +
	"-contention-time 100ms -contests ^(4.x.4,.1ms|5,.1ms|[^0-9].*) -warm-up 100ms -wait-time 200ms -waiters 200 " +
	"-trials 2 -callers 8,64 -overload-time 50ms"

func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{args: args}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&s.nodes, "nodes", 5, "`number` of Redis nodes")
	f.DurationVar(&s.ttl, "ttl", 8*time.Second, "what every lock is taken for")
	f.IntVar(&s.rounds, "rounds", 5, "`number` of rounds, in each of which every client has its turn")
	f.DurationVar(&s.time, "time", time.Second, "length of a client's turn, where it is not a number of locks")
	goroutines := f.String("goroutines", "1,8,64,512,4096", "throughput: `numbers` of goroutines")
	counts := f.String("node-counts", "1,3,5,7,9", "nodes, latency: `numbers` of nodes")
	f.IntVar(&s.held, "held", 100_000, "scale: `number` of locks that are held")
	f.BoolVar(&s.fresh, "fresh", false, "a new key for every lock, instead of one per goroutine")
	only := f.String("only", "", "throughput, nodes, latency: only the libraries with these `names`, separated by commas")
	chosen := f.String("parts", strings.Join(partNames(), ","), "the `parts` to run")
	f.IntVar(&s.blocks, "blocks", 10, "one caller: `number` of blocks that each client has in a round")
	f.IntVar(&s.blockSize, "block", 200, "one caller: largest `number` of locks in a block")
	f.DurationVar(&s.settle, "settle", 3*time.Second, "degraded, hung, waiters: time after the fault, or the start, that the settled figures leave out")
	f.DurationVar(&s.faultTime, "fault-time", 5*time.Second, "degraded: length of the healthy phase, and of the degraded one after the settling; late, resets: of a client's turn")
	f.IntVar(&s.trials, "trials", 50, "coldstart: `number` of first locks in each setting")
	f.DurationVar(&s.contentionTime, "contention-time", 4*time.Second, "contention, semaphore: length of each contest")
	contests := f.String("contests", "", "contention, semaphore: only those contests that match this `regexp`, as in '^4 x 4, 1ms'")
	f.DurationVar(&s.warmUp, "warm-up", time.Second, "contention, semaphore, line, overload: time at the start of a contest, or of a number of callers, that is not counted")
	f.IntVar(&s.waiters, "waiters", 10_000, "waiters: their `number`")
	f.DurationVar(&s.waitTime, "wait-time", 30*time.Second, "waiters, line: how long they are measured")
	callers := f.String("callers", "64,256,1000,4000,16000", "overload: `numbers` of callers")
	f.DurationVar(&s.overloadTime, "overload-time", 4*time.Second, "overload: how long each number of callers is measured in a round")
	f.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the run to this `file`")
	f.StringVar(&s.write, "write", "", "write the tables and plots of the parts that ran into "+documentName+" and "+plotFolder+"/ in this `folder`")
	f.BoolVar(&s.smoke, "smoke", false, "see that all parts work, as briefly as possible, and that "+documentName+" in ../docs/generated has a place for each")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.smoke { // What else is said goes before what this stands for.
		if err := f.Parse(append(strings.Fields(smokeFlags), args...)); err != nil {
			return s, err
		}
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return s, s.read(*goroutines, *counts, *callers, *chosen, *contests, *only)
}

// read reads the flags that are lists or patterns, and checks all of them.
func (s *settings) read(goroutines, counts, callers, chosen, contests, only string) (err error) {
	if s.goroutines, err = list("goroutines", goroutines, positive); err != nil {
		return err
	}
	if s.nodeCounts, err = list("node-counts", counts, positive); err != nil {
		return err
	}
	if s.callers, err = list("callers", callers, positive); err != nil {
		return err
	}
	if s.parts, err = list("parts", chosen, partNamed); err != nil {
		return err
	}
	if s.contests, err = regexp.Compile(contests); err != nil {
		return fmt.Errorf("-contests: %w", err)
	}
	if only != "" {
		if s.only, err = list("only", only, libraryNamed); err != nil {
			return err
		}
	}
	return s.check()
}

// list reads the value of a flag that is a list.
func list[T any](flag, value string, item func(text string) (T, error)) (all []T, err error) {
	for text := range strings.SplitSeq(value, ",") {
		one, err := item(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", flag, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func positive(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%q is not a positive number", text)
	}
	return n, nil
}

func partNamed(name string) (part, error) {
	if i := slices.Index(partNames(), name); i >= 0 {
		return parts[i], nil
	}
	return part{}, fmt.Errorf("%q is none of %s", name, strings.Join(partNames(), ", "))
}

func libraryNamed(name string) (string, error) {
	if slices.Contains(libraryNames(), name) {
		return name, nil
	}
	return "", fmt.Errorf("%q is none of %s", name, strings.Join(libraryNames(), ", "))
}

// check reports numbers with which nothing could be measured.
func (s *settings) check() error {
	switch {
	case s.nodes < 1 || s.rounds < 1 || s.blocks < 1 || s.blockSize < 1:
		return errors.New("-nodes, -rounds, -blocks and -block must be positive")
	case s.time <= 0 || s.faultTime <= 0 || s.settle < 0:
		return errors.New("-time and -fault-time must be positive, and -settle not negative")
	case s.contentionTime <= 0 || s.waitTime <= 0 || s.waiters < 1:
		return errors.New("-contention-time, -wait-time and -waiters must be positive")
	case s.overloadTime <= 0 || s.warmUp < 0:
		return errors.New("-overload-time must be positive, and -warm-up not negative")
	case s.held < 1:
		return errors.New("-held must be positive")
	case s.trials < 1:
		return errors.New("-trials must be positive")
	case s.ttl < time.Second:
		return errors.New("-ttl must be at least 1s, or locks expire while they are measured")
	case s.smoke && s.write != "":
		return errors.New("-smoke measures nothing that -write should write")
	}
	return nil
}
