package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

func (t *tool) admitCommand() *cobra.Command {
	var force bool
	cmd := manual("admit")
	cmd.Args = some("node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if t.global.quarantine == 0 {
			return usagef("--quarantine is missing: the longest ttl of the clients, as they give it (--quarantine, WithQuarantine)")
		}
		if force {
			return t.admit(cmd.Context(), nil, args)
		}
		return t.onNodes(nil, func(peers []*peer, _ stored.Keys) error { return t.admit(cmd.Context(), peers, args) })
	}
	cmd.Flags().BoolVar(&force, "force", false, "admit the nodes whatever they are set up for")
	return cmd
}

// admit is redlock admit. Without peers it does not ask what the nodes are set up for.
func (t *tool) admit(ctx context.Context, peers []*peer, names []string) error {
	r, nodes, err := t.global.open()
	if err != nil {
		return err
	}
	defer t.close(ctx, r)
	if err := knownNodes(nodes, names); err != nil {
		return err
	}
	// Before r connects, which sets up a node that knows nothing.
	if err := t.refuseChange(ctx, peers, names); err != nil {
		return err
	}
	if err := r.Admit(ctx, names...); err != nil {
		return codedError{err, exitNoQuorum, "no answer"}
	}
	t.answer(struct {
		Admitted []string `json:"admitted"`
	}{names}, "admitted %s\n", strings.Join(names, " "))
	return nil
}

// refuseChange compares what the nodes are set up for with what is given.
func (t *tool) refuseChange(ctx context.Context, peers []*peer, names []string) error {
	markers := make([]stored.Marker, len(peers))
	failed := make([]error, len(peers))
	var wg sync.WaitGroup
	for i, p := range peers {
		wg.Go(func() { markers[i], failed[i] = p.marker(ctx, stored.Keys{Prefix: t.global.prefix}.Marker()) })
	}
	wg.Wait()
	given := stored.Marker{Nodes: len(peers), MaxTTL: ceilMillis(t.global.quarantine)}
	agrees := func(m stored.Marker) bool { return m.Knows(given.Nodes) && m.MaxTTL == given.MaxTTL }
	// A node that is about to come has not met its clients, and neither have the others.
	fits := func(m stored.Marker) bool { return m.Fits(given.Nodes) && m.MaxTTL == given.MaxTTL }
	knows := func(m stored.Marker) bool { return m.Run != "" }
	for i, p := range peers {
		name, m := p.node.Name, markers[i]
		switch {
		case !slices.Contains(names, name):
		case failed[i] != nil:
			return codedError{fmt.Errorf("%s does not say what it is set up for: %w; nothing was changed", name, failed[i]), exitNoQuorum, "no answer"}
		case knows(m) && !agrees(m):
			return refusedChange("%s is set up for %v, not for %v", name, m, given)
		case knows(m) || slices.ContainsFunc(markers, fits):
		case slices.ContainsFunc(markers, knows):
			m = markers[slices.IndexFunc(markers, knows)]
			return refusedChange("%s knows nothing, and the others are set up for %v, not for %v", name, m, given)
		case given.Nodes == 1:
			return refusedChange("%s knows nothing, and no other node is given: it would refuse clients with more nodes", name)
		}
	}
	return nil
}

func refusedChange(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return codedError{errors.New(text + "; nothing was changed. Give --nodes and --quarantine as the clients have them, or --force"), exitNo, "refused"}
}

// ceilMillis is a duration in whole milliseconds, as a marker has it.
func ceilMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// marker reads what a node is set up for; the zero value if it knows nothing.
func (p *peer) marker(ctx context.Context, key string) (stored.Marker, error) {
	answers, err := p.do(ctx, request{"GET", []any{key}})
	if err != nil {
		return stored.Marker{}, err
	}
	text, err := redis.String(answers[0], nil)
	if errors.Is(err, redis.ErrNil) {
		return stored.Marker{}, nil
	}
	return stored.ParseMarker(text), err
}

// knownNodes reports a name that is none of the nodes'.
func knownNodes(nodes []redlock.Node, names []string) error {
	var known []string
	for _, n := range nodes {
		known = append(known, n.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return usagef("none of the nodes is named %q, but %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}
