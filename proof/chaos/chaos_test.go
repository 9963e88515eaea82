package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/compat/node"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/proof/chaos/client"
	"github.com/seed6c881748/redlock/proof/chaos/course"
	"github.com/seed6c881748/redlock/proof/chaos/plan"
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
	"github.com/seed6c881748/redlock/proof/peers/locker"
	"github.com/seed6c881748/redlock/test/testkit"
)

// The test binary is its own clients.
func TestMain(m *testing.M) {
	var err error
	switch {
	case slices.Contains(os.Args, "-client"):
		err = client.Run(os.Stdin, os.Stdout)
	case slices.Contains(os.Args, "-guest"):
		err = locker.Run(os.Args[len(os.Args)-1], os.Stdin, os.Stdout)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// need skips a test for which something is missing, and fails it where CI is true.
func need(t *testing.T, err error) {
	t.Helper()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	require.NoError(t, err)
}

func needServers(t *testing.T) {
	t.Helper()
	_, err := testcluster.ServerBinary()
	need(t, err)
}

// played runs a plan and judges it.
func played(t *testing.T, p *plan.Plan, guests ...[]string) ([]history.Event, judge.Verdict) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var out bytes.Buffer
	events, err := course.Run(t.Context(), course.Options{
		Plan: p, Guests: guests, Command: []string{self, "-client"}, Ours: true, History: &out,
		Header: history.Header{Library: "redlock", Fences: len(p.Fenced) > 0, Drift: drift, DriftLeast: driftLeast, SignalSlack: int64(protocol.SignalSlack)},
	})
	require.NoError(t, err)
	written, err := history.Parse(&out)
	require.NoError(t, err)
	require.Len(t, written, len(events), "what was judged is what was written")
	return events, judge.Judge(events)
}

// Whatever the machine does meanwhile, no promise may be broken. How much was locked is its own affair.
func TestNoPromiseIsBroken(t *testing.T) {
	needServers(t)
	need(t, course.HasClocks())
	t.Parallel()
	took := 12 * time.Second
	if !testing.Short() {
		took = time.Minute
	}
	p, err := plan.Draw(1, plan.All, took, func(string) bool { return true })
	require.NoError(t, err)
	events, v := played(t, p)
	require.True(t, v.OK(), "%s", v)
	s := sum(events)
	require.Positive(t, s.calls["lock: ok"])
	require.Positive(t, s.calls[writes])
	requireStallsTold(t, events)
	requireFaultsSeen(t, events)
	t.Logf("faults: %s\n%s", counts(s.faults), v)
}

// Clients of two sets of nodes exclude each other while the set changes.
func TestSetGrows(t *testing.T) {
	needServers(t)
	t.Parallel()
	p, err := plan.Draw(1, plan.Grow, 12*time.Second, everything)
	require.NoError(t, err)
	events, v := played(t, p)
	require.True(t, v.OK(), "%s", v)
	require.True(t, slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.Up && len(e.Set) == 4 }))
}

// Clients of other libraries exclude ours, and ours exclude them, on the same nodes.
func TestFleetIsMixed(t *testing.T) {
	needServers(t)
	need(t, course.HasClocks())
	node.Require(t)
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	guests, err := fleet(self)
	require.NoError(t, err)
	for took := 4 * time.Second; ; took *= 2 { // On a busy machine, some get nothing in a few seconds.
		p, err := plan.Draw(1, plan.Fleet, took, everything)
		require.NoError(t, err)
		events, v := played(t, p, guests...)
		require.True(t, v.OK(), "%s", v)
		require.Equal(t, []string{"g1", "g2"}, v.Run.Guests)
		got := make(map[string]bool)
		for _, e := range events {
			if e.Kind == history.Return && e.OK && strings.Contains("lock trylock", e.Op) && slices.Contains(p.Resources, e.Resources[0]) {
				got[e.Client] = true
			}
		}
		if got["c1"] && got["g1"] && got["g2"] {
			return
		}
		require.Less(t, took, 60*time.Second, "%v", got)
		testkit.AwaitCalm(t)
	}
}

func everything(string) bool { return true }

// A process that did not run says so: here it is known, as it was frozen.
func requireStallsTold(t *testing.T, events []history.Event) {
	t.Helper()
	told := func(kind history.Kind, fault string) map[string]int64 { // The last of each client.
		at := make(map[string]int64)
		for _, e := range events {
			if e.Kind == kind && e.Fault == fault && e.Client != "" {
				at[e.Client] = e.At
			}
		}
		return at
	}
	thawed, stalled := told(history.FaultEnd, history.Freeze), told(history.FaultEnd, history.Stall)
	require.NotEmpty(t, thawed)
	for client, frozen := range told(history.FaultBegin, history.Freeze) {
		require.Greater(t, stalled[client], (frozen+thawed[client])/2, "%s does not tell that it stood still", client)
	}
}

// requireFaultsSeen sees that faults of nodes do something: the trace shows what.
func requireFaultsSeen(t *testing.T, events []history.Event) {
	t.Helper()
	does := map[string]string{
		"kill": history.StepWatch, history.Empty: history.StepWatch, history.Stale: history.StepWatch, "rolling": history.StepWatch,
		"clock": history.StepSet,
	}
	seen := 0
	for _, f := range events {
		step := does[f.Fault]
		if f.Kind != history.FaultBegin || step == "" || f.Node == nil {
			continue
		}
		if strings.HasPrefix(f.Detail, "flush") {
			step = history.StepWiped
		}
		seen++
		require.True(t, slices.ContainsFunc(events, func(e history.Event) bool {
			return e.Op == step && *e.Node == *f.Node && e.At > f.At-int64(time.Second) && e.At < f.At+int64(10*time.Second)
		}), f.Detail)
	}
	require.Positive(t, seen)
}

// The page for people names all faults.
func TestDocumentNamesEverything(t *testing.T) {
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	for _, kind := range plan.Courses[plan.All] {
		require.Contains(t, string(page), "`"+kind+"`")
	}
}

// kept is the history of a run of every rule: -time 18s -seed 3.
const kept = "../../docs/generated/chaos/history.jsonl.gz"

// In the run whose history is kept nothing was broken, by the rules of now, each of which has looked at something.
func TestTheKeptHistory(t *testing.T) {
	events, err := history.ReadFile(kept)
	require.NoError(t, err)
	v := judge.Judge(events)
	require.True(t, v.OK(), v.String())
	require.Subset(t, []string{"quarantine"}, v.Named(judge.Nothing), "the first half minute is no time for that")
}

// A run has shown something only if enough was done: locks of the client that nobody disturbs are no sign that others got
// any, what was late because processes did not run is excused, and a run of all faults has to try every rule.
func TestWhatARunHasShown(t *testing.T) {
	told := func(course, lasted string, wrote bool, stalled time.Duration) error {
		events := []history.Event{
			{Kind: history.Run, Run: &history.Header{
				Course: course, MaxTTL: 1, Settings: map[string]string{"duration": lasted},
			}},
			{Kind: history.Up, Client: "c1"},
			{At: 1, Kind: history.Call, Client: "c1", Op: history.OpTryLock, Call: 1, Resources: []string{"a"}},
			{At: 2, Kind: history.Return, Client: "c1", Op: history.OpTryLock, Call: 1, OK: true, Until: 1e9},
			{At: 10, Kind: history.FaultBegin, Fault: history.Stall, Client: "c1"},
			{At: 10 + int64(stalled), Kind: history.FaultEnd, Fault: history.Stall, Client: "c1"},
			{At: 1e9, Kind: history.End},
		}
		if wrote {
			events = slices.Insert(events, 4,
				history.Event{
					At: 3, Kind: history.Write, Client: "c1", Lock: 1, Resources: []string{"a"}, End: 4, Value: 1, OK: true,
				},
				history.Event{At: 5, Kind: history.Register, Resources: []string{"a"}, Value: 1})
		}
		var text []byte
		for _, e := range events {
			text = append(text, protocol.Line(e)...)
		}
		name := filepath.Join(t.TempDir(), "history.jsonl")
		require.NoError(t, os.WriteFile(name, text, 0o600))
		return rejudge(name)
	}
	cut := filepath.Join(t.TempDir(), "cut.jsonl")
	require.Error(t, rejudge(cut))
	require.NoError(t, os.WriteFile(cut, []byte(`{"at":1,"kind":"run","run":{"seed":3}}`+"\n"), 0o600))
	require.ErrorIs(t, rejudge(cut), errBroken)
	require.ErrorIs(t, told("all", "1m0s", false, 0), errIdle)
	require.NoError(t, told("all", "1m0s", true, 100*time.Millisecond))
	require.ErrorIs(t, told("all", "1m0s", true, 101*time.Millisecond), errStalls)
	require.NoError(t, told("network", "5m0s", true, 0))
	err := told("all", "2m0s", true, 0)
	require.ErrorIs(t, err, errUntried)
	require.ErrorContains(t, err, "waiters")
}
