package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
	"github.com/seed6c881748/redlock/proof/judge"
)

const long = int64(10 * time.Second)

// each changes the events of a kind.
func each(kind history.Kind, change func(e *history.Event)) func([]history.Event) []history.Event {
	return func(all []history.Event) []history.Event {
		for i := range all {
			if all[i].Kind == kind {
				change(&all[i])
			}
		}
		return all
	}
}

// without leaves events out.
func without(is func(e history.Event) bool) func([]history.Event) []history.Event {
	return func(all []history.Event) []history.Event { return slices.DeleteFunc(all, is) }
}

// then adds an event behind the first one of those.
func then(is func(e history.Event) bool, add func(e history.Event) history.Event) func([]history.Event) []history.Event {
	return func(all []history.Event) []history.Event {
		if i := slices.IndexFunc(all, is); i >= 0 {
			return slices.Insert(all, i+1, add(all[i]))
		}
		return all
	}
}

// got reports whether an event is the return of a call that got a lock.
func got(e history.Event) bool {
	return e.Kind == history.Return && e.OK && (e.Op == history.OpLock || e.Op == history.OpTryLock)
}

// end reports whether an event is about the end of a lock.
func end(e history.Event) bool {
	return e.Op == history.OpUnlock || e.Op == history.OpRelease || e.Op == history.OpExtend || e.Kind == history.Lost
}

// late has all Unlocks come later.
func late() func([]history.Event) []history.Event {
	return func(all []history.Event) []history.Event {
		for i, e := range all {
			if (e.Kind == history.Call || e.Kind == history.Return) && e.Op == history.OpUnlock {
				all[i].At += long
			}
		}
		return all
	}
}

// waited changes the returns of every second call that has waited for its lock, and has them come later.
func waited(change func(e *history.Event)) func([]history.Event) []history.Event {
	return func(all []history.Event) []history.Event {
		waits := make(map[[2]any]bool)
		for i, e := range all {
			of := [2]any{e.Client, e.Call}
			if waits[of] = waits[of] || e.Kind == history.Wait; waits[of] && got(e) && e.Call%2 == 0 {
				all[i].At += long / 5
				change(&all[i])
			}
		}
		return all
	}
}

func both(a, b func([]history.Event) []history.Event) func([]history.Event) []history.Event {
	return func(all []history.Event) []history.Event { return b(a(all)) }
}

// isStep reports whether an event is such a step on a node but the first.
func isStep(ops ...string) func(e history.Event) bool {
	return func(e history.Event) bool { return e.Kind == history.Step && slices.Contains(ops, e.Op) && *e.Node > 0 }
}

// wrongs are what a run could tell that was not so, and the rules that must notice it.
var wrongs = []struct {
	what, rule string
	change     func([]history.Event) []history.Event
}{
	{"locks go on after their release", "overlap", both(without(end), each(history.Return, func(e *history.Event) {
		if got(*e) {
			e.Until += long
		}
	}))},
	{"fences are drawn by lot", "fence order", each(history.Return, func(e *history.Event) {
		if e.Fence > 0 {
			e.Fence = 1 + e.At%5
		}
	})},
	{"a write is lost", "register", each(history.Register, func(e *history.Event) { e.Value-- })},
	{"only one node grants", "support", without(isStep(
		history.StepGrant, history.StepFound, history.StepAsked, history.StepExtend, history.StepCount, history.StepShorten,
	))},
	{"nobody explains a step", "steps", each(history.Step, func(e *history.Event) {
		if e.Op == history.StepShorten {
			e.Op = history.StepOdd
		}
	})},
	{"a node grants right after a restart", "quarantine", then(func(e history.Event) bool {
		return e.Kind == history.FaultEnd && (e.Fault == history.Empty || e.Fault == "kill")
	}, func(e history.Event) history.Event {
		return history.Event{
			At: e.At + 2, From: e.At + 1, Kind: history.Step, Op: history.StepGrant, Node: e.Node, Resources: []string{"a"}, Holder: "nobody", TTL: 1,
		}
	})},
	{"kept locks are lost", "kept", func(all []history.Event) []history.Event {
		kept := make(map[[2]any]bool)
		for _, e := range all {
			if e.Kind == history.Keep {
				kept[[2]any{e.Client, e.Lock}] = true
			}
		}
		for i, e := range all {
			if e.Kind == history.Call && e.Op == history.OpUnlock && kept[[2]any{e.Client, e.Lock}] {
				all[i] = history.Event{At: e.At, Kind: history.Lost, Client: e.Client, Lock: e.Lock, Resources: e.Resources, Until: e.Until, Outcome: history.OutcomeLost}
			}
		}
		return without(func(e history.Event) bool {
			return e.Kind == history.Return && e.Op == history.OpUnlock && kept[[2]any{e.Client, e.Lock}]
		})(all)
	}},
	{"who waits gets nothing for long", "next in line", waited(func(e *history.Event) {
		e.OK, e.Outcome = false, history.OutcomeTaken
	})},
	{"turns are shorter", "turns", each(history.Call, func(e *history.Event) { e.Turn /= 50 })},
	{"calls that came later have been the first", "waiters", waited(func(e *history.Event) { e.Until += long / 5 })},
	{"no loss is heard of", "loss signal", both(without(func(e history.Event) bool { return e.Kind == history.Lost }), late())},
	{"locks last longer than their ttl", "validity", each(history.Return, func(e *history.Event) {
		if e.Until > 0 {
			e.Until += long
		}
	})},
	{"locks are said to be lost", "early loss", each(history.Return, func(e *history.Event) {
		if e.Op == history.OpExtend {
			e.OK, e.Outcome = false, history.OutcomeLost
		}
	})},
	{"what had ended was released", "release outcome", late()},
	{"Unlock returns before any answer", "released", each(history.Step, func(e *history.Event) {
		if e.Op == history.StepRelease {
			e.At, e.From = e.At+int64(time.Second), e.From+int64(time.Second)
		}
	})},
	{"keys stay", "keys left", without(isStep(history.StepRelease, history.StepExpire))},
	{"calls take longer than they may", "bounds", each(history.Return, func(e *history.Event) { e.At += long })},
	{"holds have no max hold", "hold limits", both(without(func(e history.Event) bool { return e.Kind == history.Lost }), late())},
	{"there are fewer permits", "permits", each(history.Call, func(e *history.Event) { e.Permits = min(e.Permits, 1) })},
	{"clients have other nodes", "sets", then(got, func(e history.Event) history.Event {
		return history.Event{At: e.At, Kind: history.Sets, Client: e.Client, Err: "other nodes"}
	})},
	{"calls do not return", "complete", without(got)},
}

// A check that cannot fail is none: what was told of a real run is changed, and its rule must notice that.
func TestWhatIsToldWronglyIsNoticed(t *testing.T) {
	events, err := history.ReadFile(kept)
	require.NoError(t, err)
	var noticed []string
	for _, w := range wrongs {
		t.Run(w.what, func(t *testing.T) {
			v := judge.Judge(w.change(slices.Clone(events)))
			require.Contains(t, v.Named(judge.Broken), w.rule)
		})
		noticed = append(noticed, w.rule)
	}
	for _, r := range judge.Judge(nil).Rules {
		require.Contains(t, noticed, r.Rule, "nothing is changed that this rule must notice")
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
			return e.Op == step && *e.Node == *f.Node && e.At > f.At-int64(time.Second) && e.At < f.At+long
		}), f.Detail)
	}
	require.Positive(t, seen)
}
