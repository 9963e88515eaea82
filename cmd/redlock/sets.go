package main

import (
	"context"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

// tellSets tells people of programs that share one of the nodes, but were given other ones than the tool. It leaves
// the nodes no note of the tool's own.
func (t *tool) tellSets(ctx context.Context, peers []*peer, k stored.Keys) {
	names, answers := make([]string, len(peers)), make([]string, len(peers))
	var all sync.WaitGroup
	for i, p := range peers {
		names[i] = p.node.Name
		all.Go(func() {
			name, args := k.NotesCommand()
			if got, err := p.do(ctx, request{name, args}); err == nil {
				answers[i], _ = redis.String(got[0], nil) // Nothing where it is not allowed, or not known.
			}
		})
	}
	all.Wait()
	for _, d := range stored.SetDifferences(t.global.setName, names, answers) {
		t.note(oneLine(d.String()))
	}
}

// oneLine is a text with names that others have given.
func oneLine(text string) string { return harmless(strings.ReplaceAll(text, "\n", " ")) }

// tellSet is the hook of a redlock run, for the same.
func (t *tool) tellSet(e redlock.Event) {
	switch e.Kind {
	case redlock.EventSetsDiffer:
		t.note(oneLine(e.Set.String()))
	case redlock.EventSetsAgree:
		t.note("this set of nodes no longer differs from that of " + oneLine(e.Set.Who))
	}
}
