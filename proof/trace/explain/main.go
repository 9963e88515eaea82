// Command explain watches the locks on Redis servers for a while, and says what was done with each: who got it on which
// node, extended and released it, what has expired, which keys were left behind, and which changes no rule explains. It
// reads only, and shows digests of tokens.
//
//	go run ./trace/explain -time 30s redis://a:6379 redis://b:6379 redis://c:6379
//
// MONITOR costs a server a part of its throughput: docs/operations.md says how much.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/trace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends it at once.
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run watches until the time is over. The error says whether a node was not seen, or a change has no explanation.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("explain", flag.ContinueOnError)
	long := flags.Duration("time", time.Minute, "how long to watch")
	quiet := flags.Bool("quiet", false, "say only what is wrong, and the sum")
	prefix := flags.String("prefix", "", "only keys whose names begin so")
	if err := flags.Parse(args); err != nil {
		return err
	}
	nodes := flags.Args()
	if len(nodes) == 0 { // Where others do not see passwords.
		nodes = strings.Fields(os.Getenv("NODES"))
	}
	nodes, err := urls(nodes)
	if err != nil {
		return err
	}
	if *long <= 0 {
		return fmt.Errorf("explain: -time %v is not positive", *long)
	}
	ctx, cancel := context.WithTimeout(ctx, *long)
	defer cancel()
	begin, unseen, runs := time.Now(), make(map[int]bool), make(map[string]int)
	say := func(at int64, format string, args ...any) {
		_, _ = fmt.Fprintf(out, "%s  %s\n", begin.Add(time.Duration(at)).Format("15:04:05.000000"), fmt.Sprintf(format, args...))
	}
	story := &trace.Story{Nodes: len(nodes), Tell: func(at int64, what string) { say(at, "WRONG: %s", what) }}
	w := trace.Watcher{Nodes: nodes, Prefix: *prefix, Now: func() int64 { return int64(time.Since(begin)) }, Step: func(e history.Event) {
		if e.Op == history.StepGap || e.Op == history.StepWatch {
			unseen[*e.Node] = e.Op == history.StepGap
			if other, ok := runs[e.Detail]; ok && other != *e.Node && e.Op == history.StepWatch && e.Detail != "" {
				err = fmt.Errorf("explain: nodes %d and %d are one server", other, *e.Node)
				cancel()
			}
			runs[e.Detail] = *e.Node
			say(e.At, "%s", trace.Line(e))
		} else if !*quiet && e.Op != history.StepOdd && e.Op != history.StepLate {
			say(e.At, "%s", trace.Line(e))
		}
		story.Add(e)
	}}
	w.Watch(ctx)
	_, _ = fmt.Fprintln(out, story)
	for n, not := range unseen {
		if not {
			err = cmp.Or(err, fmt.Errorf("explain: node %d was not seen in the end", n))
		}
	}
	if story.Odd > 0 {
		err = cmp.Or(err, errors.New("explain: something was wrong, see above"))
	}
	return err
}

// urls are those of nodes, which may be given as host:port. What is wrong is named by its place only, as it may have a password.
func urls(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("explain: name the nodes, or set NODES: redis://user:password@host:port/0, or host:port")
	}
	seen := make(map[string]bool)
	for i, arg := range args {
		if !strings.Contains(arg, "://") {
			arg = "redis://" + arg
		}
		u, err := url.Parse(arg)
		if err != nil || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" || !database.MatchString(u.Path) || u.RawQuery+u.Fragment != "" {
			return nil, fmt.Errorf("explain: node %d is none: redis://user:password@host:port/0, rediss://host:port, or host:port", i+1)
		}
		if args[i] = arg; seen[u.Host] {
			return nil, fmt.Errorf("explain: %q is named twice", u.Host)
		}
		seen[u.Host] = true
	}
	return args, nil
}

var database = regexp.MustCompile(`^(/[0-9]*)?$`)
