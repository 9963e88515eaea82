package timeline_test

import (
	"bytes"
	_ "embed"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/timeline"
	"github.com/seed6c881748/redlock/test/testkit"
)

// harness is the reader of the page.
//
//go:embed testdata/harness.html
var harness []byte

func pageOf(t *testing.T, events []history.Event, v judge.Verdict) []byte {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, timeline.Write(&page, events, v))
	return page.Bytes()
}

// play has a browser show the page, and the harness do what it has by that name. It returns what that has seen. The page
// asks for nothing else, and complains of nothing.
func play(t *testing.T, page []byte, name string, dark bool, args ...string) []string {
	t.Helper()
	chromium := testkit.Chromium(t)
	pages := http.NewServeMux()
	pages.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) })
	pages.HandleFunc("/", func(_ http.ResponseWriter, req *http.Request) { t.Errorf("it asks for %s", req.URL) })
	h := testkit.NewHarness(t, pages, harness, make(chan struct{}))
	_, console := chromium(t, dark, append(args, h.URL+"?"+name)...)
	assert.Empty(t, console)
	return h.Seen()
}

const second = int64(1e9)

// kept is the run whose page is published, of four clients and three nodes under faults. Its header counts three clients:
// no fault disturbs the fourth.
const kept = "../../docs/generated/chaos/history.jsonl.gz"

func read(t *testing.T, name string) []history.Event {
	t.Helper()
	events, err := history.ReadFile(name)
	require.NoError(t, err)
	return events
}

// rules is a verdict on the run, with as many violations as asked for.
func rules(run *history.Header, violations int) judge.Verdict {
	v := judge.Verdict{Run: *run, Rules: []judge.Result{
		{Rule: "overlap", Promise: "Two holders' times on one resource never overlap.", Facts: 1234, State: judge.Held},
		{Rule: "waiters", Promise: "Waiters get their turns in the order in which they came.", State: judge.Nothing},
		{Rule: "keys", Promise: "No key is left when all is over.", State: judge.LeftOut, Why: "this course excepts it"},
	}}
	for i := range int64(violations) {
		v.Rules[0].State, v.Rules[0].Violations = judge.Broken, violations
		v.Violations = append(v.Violations, judge.Violation{
			Rule: "overlap", Sentence: "c1 and c3 both held account:1 for 40 ms.",
			From: (i + 1) * 3 * second, To: (i+1)*3*second + second/25, Clients: []string{"c1", "c3.2"},
		})
	}
	return v
}

func TestInABrowser(t *testing.T) {
	run := read(t, kept)
	const evil = `</script><img src=x onerror="document.title='evil'"><!--<script>`
	named, verdict := slices.Clone(run), rules(run[0].Run, 1)
	for i := range named {
		if len(named[i].Resources) > 0 {
			named[i].Resources = []string{evil}
		}
		named[i].Fault += evil
		named[i].Err += evil
	}
	node := 0
	named = append(named, history.Event{At: 20 * second, Kind: history.Keys, Node: &node, Keys: []string{evil}},
		history.Event{At: 20 * second, Kind: history.Up, Client: evil})
	verdict.Violations[0].Sentence, verdict.Rules[0].Promise = evil, evil
	for _, tt := range []struct {
		name string
		page []byte
		seen []string
	}{
		{"use", pageOf(t, run, rules(run[0].Run, 2)), []string{
			"bars in the colours of resources, faults and votes", "a violation's link goes there", "what is under the mouse", "a click shows the votes",
			"a key zooms in", "a key pans", "a key zooms out", "a key shows all", "a key goes to a fault", "and to a violation", "a key goes to a lock",
			"a key opens the help", "all again", "the wheel zooms", "a drag pans", "all once more", "one resource is shown alone",
		}},
		{"narrow", pageOf(t, run, rules(run[0].Run, 0)), []string{"no wider than a phone", "dark", "dark lanes", "the verdict"}},
		// A name of somebody else's is a text wherever it is shown, and the page runs nothing that is not its own.
		{"names", pageOf(t, named, verdict), []string{"a name as a text", "the title", "no picture, and no other script"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.seen, play(t, tt.page, tt.name, tt.name == "narrow", "--window-size=1300,900", "--dump-dom"))
		})
	}
}

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
	assert.Contains(t, lead, "by a quorum of 3 servers")

	one := []history.Event{run[0], {At: 1, Kind: history.Up, Client: "c1"}}
	assert.Contains(t, text(string(pageOf(t, one, rules(run[0].Run, 0)))), " 1 client took ")
}
