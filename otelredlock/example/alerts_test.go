package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	set    []redlock.Node
	look   func() string
	looks  int
	values map[string][]string // what was seen, by series, in promtool's notation
	calls  sync.WaitGroup

	began   int           // looks before the situation began
	gone    bool          // the process stands still, or has ended: a look finds nothing
	dropped bool          // and Prometheus does not look any more
	beside  []string      // nodes of another process of the same job
	timeout time.Duration // the node timeout
}

// inScene plays a situation beside another fault in a bubble, and returns what was seen.
func inScene(t *testing.T, on situation, beside fault) (s *scene) {
	t.Helper()
	n, opts, timeout := on.size(beside), on.opts, max(on.timeout, 250*time.Millisecond)
	opts = append(opts[:len(opts):len(opts)], redlock.WithNodeTimeout(timeout))
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
		s = &scene{Redlock: r, t: t, ctx: ctx, nodes: c.Nodes, set: nodes, timeout: timeout, look: func() string { return scrape(t, handler) }, values: map[string][]string{}}
		if beside.begin != nil {
			beside.begin(s)
		}
		s.began = s.looks
		on.play(s)
		cancel()
		s.calls.Wait()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = r.Close(ending) // Nodes may be down.
	})
	return s
}

var exportedLine = regexp.MustCompile(`^(redlock_\w+\{.*\}) (\S+)\n$`)

// pass lets time go by.
func (s *scene) pass(d time.Duration) {
	for range d / scrapeEvery {
		time.Sleep(scrapeEvery)
		synctest.Wait()
		seen := map[string]bool{}
		for line := range strings.Lines(s.shown()) {
			m := exportedLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			value, err := strconv.ParseFloat(m[2], 64)
			require.NoError(s.t, err, line)
			series := seriesOf(m[1])
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

// seriesOf adds the labels of a target to a line's name.
func seriesOf(line string) string {
	series := strings.TrimSuffix(line, "}") + `,job="billing"`
	if !strings.Contains(series, "instance=") {
		series += `,instance="vm1"`
	}
	return strings.Replace(series, "redlock_up{,", "up{", 1) + "}"
}

// shown is what a look finds, and what Prometheus adds to it.
func (s *scene) shown() string {
	switch {
	case s.dropped:
		return ""
	case s.gone:
		return "redlock_up{} 0\n"
	}
	text := "redlock_up{} 1\n" + s.look()
	for _, n := range s.beside {
		text += fmt.Sprintf("redlock_node_up{redlock_node_name=%q,instance=\"vm2\"} 1\n", n)
	}
	return text
}

// every has callers make a call again and again until the scene is over.
func (s *scene) every(d time.Duration, call func()) {
	s.calls.Go(func() {
		for s.ctx.Err() == nil {
			call()
			rest(s.ctx, d)
		}
	})
}

// ask has promtool run the alert rules over the scene, and requires that each query then is 1 for these labels.
func (s *scene) ask(t *testing.T, answers map[string][]string) {
	t.Helper()
	end := (time.Duration(s.looks-1) * scrapeEvery).String()
	var seen, questions []map[string]any
	for name, values := range s.values {
		seen = append(seen, map[string]any{"series": name, "values": strings.Join(values, " ")})
	}
	for expr, all := range answers {
		samples := []map[string]any{}
		for _, labels := range all {
			samples = append(samples, map[string]any{"labels": labels, "value": 1})
		}
		questions = append(questions, map[string]any{"expr": expr, "eval_time": end, "exp_samples": samples})
	}
	rules, err := filepath.Abs("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{ // As YAML, too.
		"rule_files": []string{rules}, "evaluation_interval": scrapeEvery.String(),
		"tests": []any{map[string]any{"interval": scrapeEvery.String(), "input_series": seen, "promql_expr_test": questions}},
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "scene.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), promtool(t), "test", "rules", file).CombinedOutput()
	assert.NoError(t, err, "%s", out)
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

// Each situation alone, and beside each of the faults: what must fire does, and nothing else. In short, those that tell
// most, beside the hardest fault.
func TestAlertsFireInTheirSituationAndOnlyThere(t *testing.T) {
	promtool(t)
	text, err := os.ReadFile("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	untried := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: Redlock(\w+)$`).FindAllStringSubmatch(string(text), -1) {
		untried[m[1]] = true
	}
	for name, on := range situations {
		for _, beside := range on.besides() {
			t.Run(name+" "+beside.name, func(t *testing.T) {
				t.Parallel()
				s := inScene(t, on, beside)
				// Since the situation began, whenever that was.
				since := time.Duration(s.looks-s.began) * scrapeEvery
				fired := fmt.Sprintf(`group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%.0fs]))`, since.Seconds())
				labels := []string{}
				for _, n := range on.expected(beside) {
					labels = append(labels, fmt.Sprintf("{alertname=%q}", "Redlock"+n))
				}
				s.ask(t, map[string][]string{fired: labels})
			})
			for _, n := range on.expected(beside) {
				delete(untried, n)
			}
		}
	}
	assert.Empty(t, untried, "alerts that no situation has fire")
}

func scrape(t require.TestingT, handler http.Handler) string {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

// Each panel of the dashboard asks for what the example exports, and has numbers.
func TestPanelsHaveData(t *testing.T) {
	promtool(t)
	text, err := os.ReadFile("../../docs/telemetry/dashboard.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	require.NotEmpty(t, board.Panels)
	filled := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$class", ".*")
	answers := map[string][]string{}
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, q := range p.Targets {
			answers[fmt.Sprintf("count((%s) >= 0) > bool 0", filled.Replace(q.Expr))] = []string{"{}"}
		}
	}
	inScene(t, situation{play: func(s *scene) {
		s.with(s.nodes, func(n *testcluster.Node) error { return n.Slow(time.Millisecond, time.Millisecond) })
		for i := range 4 {
			s.calls.Go(func() { work(s.ctx, s.Redlock, i) })
		}
		s.pass(6 * time.Minute)
	}}, fault{}).ask(t, answers)
}
