package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock/stored"
)

func (t *tool) watchCommand() *cobra.Command {
	var interval time.Duration
	var permits int
	cmd := manual("watch")
	cmd.Args = some("resource")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if interval < 100*time.Millisecond {
			return usagef("--interval %v: must be at least 100ms", interval)
		}
		if err := checkPermits(cmd, permits, 0); err != nil {
			return err
		}
		return t.onNodes(args, func(peers []*peer, k stored.Keys) error {
			return t.watch(cmd.Context(), peers, k, args, permits, interval)
		})
	}
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how often to look")
	permitsFlag(cmd, &permits, "each RESOURCE is the name of a semaphore of `K` permits, from 1 to 256")
	return cmd
}

// watch is redlock watch; permits is 0 without --permits.
func (t *tool) watch(ctx context.Context, peers []*peer, k stored.Keys, resources []string, permits int, interval time.Duration) error {
	interrupted := make(chan os.Signal, 1)
	notify(interrupted, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // After which a terminal is to have its cursor.
	defer signal.Stop(interrupted)
	t.tellSets(ctx, peers, k)
	live := isTerminal(t.out) && !t.global.json
	if live {
		printf(t.out, "%s", "\x1b[?25l") // Without the cursor.
		defer printf(t.out, "%s", "\x1b[?25h")
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	last := make(map[string]string)
	for {
		views := lookAll(ctx, peers, k, resources, permits)
		if live {
			t.draw(views, permits, interval)
		} else {
			t.changes(views, last)
		}
		select {
		case <-ticker.C:
			if err := t.out.err; err != nil {
				return err
			}
		case sig := <-interrupted:
			return &endedError{statusOf(sig)}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// draw writes the picture over the last one, in one piece, so that it does not flicker.
func (t *tool) draw(views []view, permits int, interval time.Duration) {
	var text bytes.Buffer
	printf(&text, "%s\n\n", t.styleFor(t.out).dim(fmt.Sprintf("every %v, %s", interval, time.Now().Format(time.TimeOnly))))
	for some := range slices.Chunk(views, max(permits, 1)) {
		t.show(&text, some)
		fmt.Fprintln(&text)
	}
	t.showNextSteps(&text, views)
	// Each line is cleared behind its end, and what is below the last one.
	lines := strings.ReplaceAll(text.String(), "\n", "\x1b[K\r\n")
	printf(t.out, "%s", "\x1b[H"+lines+"\x1b[J")
}

// changes writes a line for each resource that is not as it was; last is how that was.
func (t *tool) changes(views []view, last map[string]string) {
	for i := range views {
		v := &views[i]
		state := v.state()
		if last[v.resource] == state {
			continue
		}
		last[v.resource] = state
		now := time.Now().Format(time.RFC3339Nano)
		if t.global.json {
			writeJSON(t.out, struct {
				Time string `json:"time"`
				viewJSON
			}{now, v.json()})
			continue
		}
		s := t.styleFor(t.out)
		line := fmt.Sprintf("%s %s %s", s.dim(now), s.bold(printable(v.resource)), v.summary(s))
		for _, n := range v.sights {
			if n.err != nil {
				line += fmt.Sprintf("; %s: %s", n.node, n.text(s, ""))
			}
		}
		printf(t.out, "%s\n", line)
	}
}

// state is all that a change of is worth a line.
func (v *view) state() string {
	j := v.json()
	text := fmt.Sprint(j.State, j.Holder, j.On, j.Fence, j.Waiting)
	for _, n := range v.sights {
		text += fmt.Sprint(n.err != nil)
	}
	return text
}
