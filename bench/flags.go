package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what the flags say.
type settings struct {
	command     string // what measures the same again
	parts       []part
	nodes       int
	nodeCounts  []int
	ttl         time.Duration
	rounds      int
	time        time.Duration
	goroutines  []int
	blocks      int
	blockSize   int
	settle      time.Duration
	contestTime time.Duration
	warmUp      time.Duration
	write       string
	smoke       bool
}

// smokeFlags have every part do as little as it can.
const smokeFlags = "-nodes 3 -node-counts 1,3 -ttl 4s -rounds 1 -time 30ms -goroutines 64 -blocks 1 -block 5 " +
	"-settle 100ms -contest-time 100ms -warm-up 100ms"

func parse(args []string, usage io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(usage)
	chosen := f.String("parts", strings.Join(partNames(), ","), "the `parts` to run")
	f.IntVar(&s.nodes, "nodes", 5, "`number` of Redis nodes")
	counts := f.String("node-counts", "1,3,5,7,9", "nodes, latency: `numbers` of nodes")
	f.DurationVar(&s.ttl, "ttl", 8*time.Second, "what every lock is taken for")
	f.IntVar(&s.rounds, "rounds", 5, "`number` of rounds, in each of which every client has its turn")
	f.DurationVar(&s.time, "time", time.Second, "length of a client's turn, where it is not a number of locks")
	goroutines := f.String("goroutines", "1,8,64,512,4096", "throughput: `numbers` of goroutines")
	f.IntVar(&s.blocks, "blocks", 10, "one caller: `number` of blocks that each client has in a round")
	f.IntVar(&s.blockSize, "block", 200, "one caller: largest `number` of locks in a block")
	f.DurationVar(&s.settle, "settle", 3*time.Second, "minority: time between the fault and the first turn")
	f.DurationVar(&s.contestTime, "contest-time", 4*time.Second, "length of each contest; in a line: five times as long")
	f.DurationVar(&s.warmUp, "warm-up", time.Second, "time at the start of a contest that is not counted")
	f.StringVar(&s.write, "write", "", "the `folder` of "+documentName+" and "+plotFolder+"/, to write into")
	f.BoolVar(&s.smoke, "smoke", false, "see that all parts work, as briefly as possible")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	s.command = commandOf(f)
	if s.smoke { // What else is said goes before what this stands for.
		if err := f.Parse(append(strings.Fields(smokeFlags), args...)); err != nil {
			return s, err
		}
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var failed [3]error
	s.parts, failed[0] = list("parts", *chosen, partNamed)
	s.nodeCounts, failed[1] = list("node-counts", *counts, positive)
	s.goroutines, failed[2] = list("goroutines", *goroutines, positive)
	return s, errors.Join(append(failed[:], s.check())...)
}

// commandOf returns what to type to measure the same again.
func commandOf(f *flag.FlagSet) string {
	var flags []string
	f.Visit(func(one *flag.Flag) {
		if one.Name != "write" { // What is measured does not depend on it.
			flags = append(flags, "-"+one.Name+" "+one.Value.String())
		}
	})
	if len(flags) == 0 {
		return "make bench"
	}
	return fmt.Sprintf(`make bench BENCHFLAGS="%s"`, strings.Join(flags, " "))
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

// check reports numbers with which nothing could be measured.
func (s *settings) check() error {
	switch {
	case s.nodes < 1 || s.rounds < 1 || s.blocks < 1 || s.blockSize < 1:
		return errors.New("-nodes, -rounds, -blocks and -block must be positive")
	case s.time <= 0 || s.contestTime <= 0 || s.settle < 0 || s.warmUp < 0:
		return errors.New("-time and -contest-time must be positive, and -settle and -warm-up not negative")
	case s.ttl < time.Second:
		return errors.New("-ttl must be at least 1s, or locks expire while they are measured")
	case s.smoke && s.write != "":
		return errors.New("-smoke measures nothing that -write should write")
	}
	return nil
}

// few are all settings of a part. To see that it works one is enough.
func few[T any](s settings, all []T) []T {
	if s.smoke {
		return all[:1]
	}
	return all
}
