// Command explain watches the locks on Redis servers for a while, and says what was done with each: who got it on which
// node, extended and released it, what has expired, which keys were left behind, and which changes no rule explains. It
// reads only, and shows digests of tokens.
//
//	go run ./trace/explain -time 30s redis://a:6379 redis://b:6379 redis://c:6379
//
// MONITOR costs a server a part of its throughput: docs/operations.md says how much.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errWrong = errors.New("explain: something was wrong, see above")

// run watches until the time is over. The error says whether a node was not seen, or a change has no explanation.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	long := flags.Duration("time", time.Minute, "how long to watch")
	quiet := flags.Bool("quiet", false, "say only what is wrong, and the sum")
	prefix := flags.String("prefix", "", "only keys whose names begin so")
	if err := flags.Parse(args); err != nil {
		return err
	}
	nodes, err := urls(flags.Args())
	if err != nil {
		return err
	}
	if *long <= 0 {
		return fmt.Errorf("explain: -time %v is not positive", *long)
	}
	ctx, cancel := context.WithTimeout(ctx, *long)
	defer cancel()
	begin, unseen := time.Now(), make(map[int]bool)
	say := func(at int64, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%s  %s\n", begin.Add(time.Duration(at)).Format("15:04:05.000000"), fmt.Sprintf(format, args...))
	}
	story := &trace.Story{Nodes: len(nodes), Tell: func(at int64, what string) { say(at, "WRONG: %s", what) }}
	w := trace.Watcher{Nodes: nodes, Prefix: *prefix, Now: func() int64 { return int64(time.Since(begin)) }, Step: func(e history.Event) {
		switch {
		case e.Op == history.StepGap:
			unseen[*e.Node] = true
			say(e.At, "%s", trace.Line(e))
		case e.Op == history.StepWatch:
			delete(unseen, *e.Node)
			fallthrough
		case !*quiet && e.Op != history.StepOdd:
			say(e.At, "%s", trace.Line(e))
		}
		story.Add(e)
	}}
	w.Watch(ctx)
	_, _ = fmt.Fprintln(out, story)
	switch {
	case len(unseen) > 0:
		return fmt.Errorf("explain: %d of %d nodes were not seen in the end", len(unseen), len(nodes))
	case story.Odd > 0:
		return errWrong
	}
	return nil
}

// urls are those of nodes, which may be given as host:port.
func urls(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("explain: name the nodes: redis://user:password@host:port/0, or host:port")
	}
	seen := make(map[string]bool)
	for i, arg := range args {
		if !strings.Contains(arg, "://") {
			arg = "redis://" + arg
		}
		u, err := url.Parse(arg)
		if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
			return nil, fmt.Errorf("explain: %q is no node: redis://host:port, rediss://host:port, or host:port",
				args[i][strings.LastIndex(args[i], "@")+1:]) // Without a password.
		}
		if args[i] = arg; seen[u.Host] {
			return nil, fmt.Errorf("explain: %q is named twice", u.Host)
		}
		seen[u.Host] = true
	}
	return args, nil
}
