// Command bench compares package redlock with redsync on real redis-server
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
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// settings are what the flags say.
type settings struct {
	nodes          int
	ttl            time.Duration
	rounds         int
	time           time.Duration
	goroutines     []int
	fresh          bool
	only           string
	parts          []string
	blocks         int
	blockSize      int
	settle         time.Duration
	faultTime      time.Duration
	slow           time.Duration
	trials         int
	contendTime    time.Duration
	contentionTime time.Duration
	contests       *regexp.Regexp
	waitTime       time.Duration
	waiters        int
	callers        []int
	overloadTime   time.Duration
	cpuProfile     string
}

// parts are the measurements, in the order in which they run.
var parts = []string{"throughput", "latency", "fencing", "quarantine", "degraded", "late", "resets", "coldstart", "handover", "contention", "handon", "expiry", "waiters", "overload"}

func main() {
	if text := os.Getenv(orderVariable); text != "" {
		if err := carryOut(text, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(s, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string, usage io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&s.nodes, "nodes", 5, "`number` of Redis nodes")
	f.DurationVar(&s.ttl, "ttl", 8*time.Second, "what every lock is taken for")
	f.IntVar(&s.rounds, "rounds", 5, "`number` of rounds, in each of which every client has its turn")
	f.DurationVar(&s.time, "time", 2*time.Second, "throughput, fencing, quarantine: length of a client's turn")
	goroutines := f.String("goroutines", "64,8,1", "throughput, fencing, quarantine: `numbers` of goroutines")
	f.BoolVar(&s.fresh, "fresh", false, "throughput, latency: a new key for every lock, instead of one per goroutine")
	f.StringVar(&s.only, "only", "", "throughput, latency: only the client of this `name` (redlock, redsync, redsync-failfast)")
	chosen := f.String("parts", strings.Join(parts, ","), "the `parts` to run")
	f.IntVar(&s.blocks, "blocks", 10, "latency, fencing, quarantine: `number` of blocks that each client has in a round")
	f.IntVar(&s.blockSize, "block", 200, "latency, fencing, quarantine: `number` of locks in a block")
	f.DurationVar(&s.settle, "settle", 3*time.Second, "degraded, waiters: time after the fault, or the start, that the settled figures leave out")
	f.DurationVar(&s.faultTime, "fault-time", 5*time.Second, "degraded: length of the healthy phase, and of the degraded one after the settling; late, resets: of a client's turn")
	f.IntVar(&s.trials, "trials", 50, "coldstart: `number` of first locks in each setting")
	f.DurationVar(&s.slow, "slow", 50*time.Millisecond, "degraded: list operations that took longer")
	f.DurationVar(&s.contendTime, "contend-time", 8*time.Second, "handover: how long the processes contend")
	f.DurationVar(&s.contentionTime, "contention-time", 4*time.Second, "contention: length of each contest")
	contests := f.String("contests", "", "contention: only those contests that match this `regexp`, as in '^4 x 4, 1ms'")
	f.IntVar(&s.waiters, "waiters", 10_000, "waiters: their `number`")
	f.DurationVar(&s.waitTime, "wait-time", 30*time.Second, "waiters: how long they are measured")
	callers := f.String("callers", "64,256,1000,4000,16000", "overload: `numbers` of callers")
	f.DurationVar(&s.overloadTime, "overload-time", 4*time.Second, "overload: how long each number of callers is measured in a round")
	f.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the run to this `file`")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if s.goroutines, err = numbers("goroutines", *goroutines); err != nil {
		return s, err
	}
	if s.callers, err = numbers("callers", *callers); err != nil {
		return s, err
	}
	for _, part := range strings.Split(*chosen, ",") {
		if part = strings.TrimSpace(part); !slices.Contains(parts, part) {
			return s, fmt.Errorf("-parts: %q is none of %s", part, strings.Join(parts, ", "))
		}
		s.parts = append(s.parts, part)
	}
	if s.contests, err = regexp.Compile(*contests); err != nil {
		return s, fmt.Errorf("-contests: %w", err)
	}
	if s.only != "" && !slices.Contains(clientNames, s.only) {
		return s, fmt.Errorf("-only: %q is none of %s", s.only, strings.Join(clientNames, ", "))
	}
	return s, s.check()
}

// numbers reads the value of a flag that is a list of them.
func numbers(name, list string) (all []int, err error) {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is not a positive number", name, text)
		}
		all = append(all, n)
	}
	return all, nil
}

// check reports numbers with which nothing could be measured.
func (s settings) check() error {
	switch {
	case s.nodes < 1 || s.rounds < 1 || s.blocks < 1 || s.blockSize < 1:
		return errors.New("-nodes, -rounds, -blocks and -block must be positive")
	case s.time <= 0 || s.faultTime <= 0 || s.settle < 0:
		return errors.New("-time and -fault-time must be positive, and -settle not negative")
	case s.contendTime <= 0 || s.contentionTime <= 0 || s.waitTime <= 0 || s.waiters < 1:
		return errors.New("-contend-time, -contention-time, -wait-time and -waiters must be positive")
	case s.overloadTime <= 0:
		return errors.New("-overload-time must be positive")
	case s.trials < 1:
		return errors.New("-trials must be positive")
	case s.ttl < time.Second:
		return errors.New("-ttl must be at least 1s, or locks expire while they are measured")
	}
	return nil
}

func run(s settings, w io.Writer) (err error) {
	if err = header(s, w); err != nil {
		return err
	}
	stop, err := startProfile(s.cpuProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if slices.Contains(s.parts, "throughput") || slices.Contains(s.parts, "latency") {
		if err := compare(s, w); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		run  func(settings, io.Writer) error
	}{{"fencing", fencing}, {"quarantine", quarantine}, {"degraded", degraded}, {"late", late}, {"resets", resets}, {"coldstart", coldStart}, {"handover", handover}, {"contention", contention}, {"handon", handon}, {"expiry", expiry}, {"waiters", waiters}, {"overload", overload}} {
		if slices.Contains(s.parts, part.name) {
			if err := part.run(s, w); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}

// header says what the figures were measured with.
func header(s settings, w io.Writer) error {
	version, err := serverVersion()
	if err != nil {
		return err
	}
	redsync := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/go-redsync/redsync/v4" {
				redsync = dep.Version
			}
		}
	}
	_, err = fmt.Fprintf(w, "%s %s/%s, GOMAXPROCS %d; %d x %s on loopback TCP; redsync %s; ttl %v\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), s.nodes, version, redsync, s.ttl)
	return err
}

// compare runs the parts that all clients take part in.
func compare(s settings, w io.Writer) (err error) {
	cluster, err := testcluster.StartServers(s.nodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	clients, err := newClients(cluster.Addrs(), s.ttl, slices.Max(s.goroutines), s.only)
	if err != nil {
		return err
	}
	defer closeClients(clients)
	if slices.Contains(s.parts, "throughput") {
		if err := throughput(s, w, cluster, clients); err != nil {
			return err
		}
	}
	if slices.Contains(s.parts, "latency") {
		return latency(s, w, clients)
	}
	return nil
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
