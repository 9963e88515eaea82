package timeline_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

// text is what a reader sees of a part of a page.
func text(html string) string {
	return strings.Join(strings.Fields(regexp.MustCompile("<[^>]*>").ReplaceAllString(html, " ")), " ")
}

// The page counts as many clients and nodes as it draws lanes, whatever the run's header says.
func TestTheCountsAreThoseOfTheLanes(t *testing.T) {
	run := read(t, kept)
	drawn := map[string]bool{}
	for _, e := range run {
		if e.Kind == history.Up {
			client, _, _ := strings.Cut(e.Client, ".")
			drawn[client] = true
		}
	}
	require.Len(t, drawn, 4)
	lead := text(string(pageOf(t, run, rules(run[0].Run, 0))))
	assert.Contains(t, lead, " 4 clients took ")
	assert.Contains(t, lead, "by a quorum of 4 servers")

	one := []history.Event{run[0], {At: 1, Kind: history.Up, Client: "c1"}}
	assert.Contains(t, text(string(pageOf(t, one, rules(run[0].Run, 0)))), " 1 client took ")
}

// What was left is told in words for whoever wonders whether locks can be left behind: no dump of the register.
func TestWhatWasLeft(t *testing.T) {
	run, node := read(t, kept), 2
	left := func(events []history.Event) string {
		_, part, found := strings.Cut(string(pageOf(t, events, rules(run[0].Run, 0))), `<h2 id="left-title">`)
		if !found {
			return ""
		}
		part, _, _ = strings.Cut(part, "</section>")
		return text(part)
	}
	assert.Equal(t, "What was left behind Nothing: when all locks had been released or their time was over, none of the 4 nodes had "+
		"a key of a lock, which could have kept others out.", left(run))
	assert.Equal(t, "What was left behind When all locks had been released or their time was over, some nodes still had keys of locks. "+
		"These may keep others out. node 2 a, b", left(append(run[:len(run):len(run)], history.Event{Kind: history.Keys, Node: &node, Keys: []string{"a", "b"}})))
	assert.Empty(t, left(run[:1]), "nobody has looked")
}
