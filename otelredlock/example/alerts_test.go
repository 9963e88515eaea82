package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

// scrapeEvery is how often Prometheus looks at the process and at the rules.
const scrapeEvery = 30 * time.Second

// A scene is a process in a situation, in fake time, that Prometheus looks at.
type scene struct {
	*redlock.Redlock

	t      *testing.T
	ctx    context.Context //nolint:containedctx // Ends with the scene.
	nodes  []*testcluster.Node
	look   func() string
	looks  int
	values map[string][]string // what was seen, by series, in promtool's notation
	calls  sync.WaitGroup
}

// inScene plays a situation in a bubble, and returns what was seen.
func inScene(t *testing.T, on situation) (s *scene) {
	t.Helper()
	n, opts := max(on.nodes, 3), on.opts
	if on.hook != nil {
		opts = append(opts, redlock.WithHook(func(context.Context, redlock.Event) { on.hook(s) }))
	}
	synctest.Test(t, func(t *testing.T) {
		c := testcluster.RunBubble(t, n)
		nodes := make([]redlock.Node, n)
		for i, node := range c.Nodes {
			nodes[i] = redlock.Node{Name: "node-" + strconv.Itoa(i+1), Pool: node.Pool()}
		}
		r, handler, err := service(nodes, opts...)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		s = &scene{Redlock: r, t: t, ctx: ctx, nodes: c.Nodes, look: func() string { return scrape(t, handler) }, values: map[string][]string{}}
		on.play(s)
		cancel()
		s.calls.Wait()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = r.Close(ending) // Nodes may be down.
	})
	return s
}

// pass lets time go by.
func (s *scene) pass(d time.Duration) {
	for range d / scrapeEvery {
		time.Sleep(scrapeEvery)
		synctest.Wait()
		seen := map[string]bool{}
		for line := range strings.Lines(s.look()) {
			m := regexp.MustCompile(`^(redlock_\w+\{.*\}) (\S+)\n$`).FindStringSubmatch(line)
			if m == nil {
				continue
			}
			value, err := strconv.ParseFloat(m[2], 64)
			require.NoError(s.t, err, line)
			series := strings.TrimSuffix(m[1], "}") + `,job="billing",instance="vm1"}`
			for len(s.values[series]) < s.looks {
				s.values[series] = append(s.values[series], "_")
			}
			s.values[series] = append(s.values[series], strconv.FormatFloat(value, 'f', -1, 64))
			seen[series] = true
		}
		s.looks++
		for series, values := range s.values {
			if !seen[series] {
				s.values[series] = append(values, "stale")
			}
		}
	}
}

// every has callers make a call again and again until the scene is over.
func (s *scene) every(d time.Duration, call func()) {
	s.calls.Go(func() {
		for s.ctx.Err() == nil {
			call()
			select {
			case <-time.After(d):
			case <-s.ctx.Done():
			}
		}
	})
}

// A question is what promtool asks of a scene when it is over.
type question struct {
	Expr    string   `json:"expr"`
	At      string   `json:"eval_time"`
	Answers []sample `json:"exp_samples"`
}

type sample struct {
	Labels string  `json:"labels"`
	Value  float64 `json:"value"`
}

// ask has promtool run the alert rules over the scene, and compares its answers with those that are expected.
func (s *scene) ask(questions ...question) {
	s.t.Helper()
	type series struct {
		Series string `json:"series"`
		Values string `json:"values"`
	}
	var all []series
	for name, values := range s.values {
		all = append(all, series{name, strings.Join(values, " ")})
	}
	require.NotEmpty(s.t, all)
	for i := range questions {
		questions[i].At = (time.Duration(s.looks-1) * scrapeEvery).String()
	}
	rules, err := filepath.Abs("../../docs/telemetry/alerts.yaml")
	require.NoError(s.t, err)
	text, err := json.Marshal(map[string]any{ // As YAML, too.
		"rule_files": []string{rules}, "evaluation_interval": scrapeEvery.String(),
		"tests": []any{map[string]any{"interval": scrapeEvery.String(), "input_series": all, "promql_expr_test": questions}},
	})
	require.NoError(s.t, err)
	file := filepath.Join(s.t.TempDir(), "scene.yaml")
	require.NoError(s.t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(s.t.Context(), promtool(s.t), "test", "rules", file).CombinedOutput()
	assert.NoError(s.t, err, "%s", out)
}

// promtool returns the program, or ends the test where there is none.
func promtool(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"promtool", "../../build/prometheus/promtool"} {
		if path, err := exec.LookPath(p); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no promtool: scripts/promtool.sh unpacks it")
	}
	t.Skip("no promtool")
	return ""
}

// fired asks which alerts have fired in the scene, whenever that was.
func fired(names []string) question {
	q := question{Expr: `group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1d]))`}
	for _, n := range names {
		q.Answers = append(q.Answers, sample{fmt.Sprintf("{alertname=%q}", "Redlock"+n), 1})
	}
	return q
}

func TestAlertsFireInTheirSituationAndOnlyThere(t *testing.T) {
	promtool(t)
	text, err := os.ReadFile("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	untried := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: Redlock(\w+)$`).FindAllStringSubmatch(string(text), -1) {
		untried[m[1]] = true
	}
	for name, on := range situations {
		for _, a := range on.fires {
			delete(untried, a)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inScene(t, on)
			s.t = t
			s.ask(fired(slices.Sorted(slices.Values(on.fires))))
		})
	}
	assert.Empty(t, untried, "alerts that no situation has fire")
}

// panels asks whether each query of the dashboard has an answer that is a number.
func panels(t *testing.T) (all []question) {
	t.Helper()
	filled := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$class", ".*")
	for _, q := range dashboard(t) {
		expr := filled.Replace(q)
		all = append(all, question{Expr: fmt.Sprintf("count((%s) >= 0) > bool 0", expr), Answers: []sample{{"{}", 1}}})
	}
	return all
}
