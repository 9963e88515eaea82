package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	"github.com/seed6c881748/redlock/redlock/redlocktest"
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

// A played scene is what promtool is asked about it when it is over, as a group of its unit tests.
type played struct {
	Name      string     `json:"name"`
	Interval  string     `json:"interval"`
	Series    []series   `json:"input_series"`
	Questions []question `json:"promql_expr_test"`
}

type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

// over is what is asked of the scene.
func (s *scene) over(name string, questions ...question) played {
	p := played{Name: name, Interval: scrapeEvery.String(), Questions: questions}
	for name, values := range s.values {
		p.Series = append(p.Series, series{name, strings.Join(values, " ")})
	}
	for i := range questions {
		questions[i].At = (time.Duration(s.looks-1) * scrapeEvery).String()
	}
	return p
}

// ask has promtool run the alert rules over the scenes, and compares its answers with those that are expected.
func ask(t *testing.T, scenes ...played) {
	t.Helper()
	rules, err := filepath.Abs("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	text, err := json.Marshal(map[string]any{ // As YAML, too.
		"rule_files": []string{rules}, "evaluation_interval": scrapeEvery.String(), "tests": scenes,
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "scenes.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), promtool(t), "test", "rules", file).CombinedOutput()
	if err == nil || len(scenes) == 1 {
		assert.NoError(t, err, "%s", out)
		return
	}
	for _, s := range scenes { // Its output does not say which it was.
		t.Run(s.Name, func(t *testing.T) { ask(t, s) })
	}
	assert.True(t, t.Failed(), "%s", out)
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

// fired asks which alerts have fired since the situation began, whenever that was.
func (s *scene) fired(names []string) question {
	since := time.Duration(s.looks-s.began) * scrapeEvery
	q := question{Expr: fmt.Sprintf(`group by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%.0fs]))`, since.Seconds())}
	for _, n := range names {
		q.Answers = append(q.Answers, sample{fmt.Sprintf("{alertname=%q}", "Redlock"+n), 1})
	}
	return q
}

// Each situation alone, and beside each of the faults: what must fire does, and nothing else.
func TestAlertsFireInTheirSituationAndOnlyThere(t *testing.T) {
	promtool(t)
	text, err := os.ReadFile("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	untried := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: Redlock(\w+)$`).FindAllStringSubmatch(string(text), -1) {
		untried[m[1]] = true
	}
	for _, beside := range faults {
		t.Run(beside.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var scenes []played
			t.Run("scenes", func(t *testing.T) {
				for name, on := range situations {
					if on.alone != "" && beside.begin != nil || on.calm && beside.loss {
						continue
					}
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						s := inScene(t, on, beside)
						over := s.over(name+" ("+beside.name+")", s.fired(on.expected(beside)))
						mu.Lock()
						defer mu.Unlock()
						scenes = append(scenes, over)
					})
				}
			})
			ask(t, scenes...)
		})
	}
	for _, on := range situations {
		for _, name := range on.expected(fault{}) {
			delete(untried, name)
		}
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

// exported returns the labels of each metric of a service that has had a bit of everything.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	nodes := redlocktest.New(t, 3)
	r, handler, err := service(nodes.Nodes())
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	l, err := r.TryLock(t.Context(), []string{"invoice:7"}, time.Minute)
	require.NoError(t, err)
	_, err = r.TryLock(t.Context(), []string{"invoice:7"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, l.Extend(t.Context(), time.Minute))
	require.NoError(t, l.Unlock(t.Context()))
	require.ErrorIs(t, l.Extend(t.Context(), time.Minute), redlock.ErrLost)
	require.NoError(t, r.Do(t.Context(), []string{"report:1"}, time.Minute, func(context.Context, *redlock.Lock) error { return nil }))

	var text string
	require.EventuallyWithT(t, func(c *assert.CollectT) { // The hook has a goroutine of its own.
		text = scrape(c, handler)
		assert.Contains(c, text, "redlock_hold_ended_total{")
		assert.Contains(c, text, "redlock_lock_hold_duration_seconds_count{")
	}, 2*time.Minute, 10*time.Millisecond)
	metrics := map[string]map[string]bool{}
	for line := range strings.Lines(text) {
		m := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if metrics[m[1]] == nil {
			metrics[m[1]] = map[string]bool{}
		}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			metrics[m[1]][label[1]] = true
		}
		assert.NotContains(t, line, "invoice:7", "a resource is never a label")
	}
	return metrics
}

func scrape(t require.TestingT, handler http.Handler) string {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return string(body)
}

// dashboard returns the queries of the dashboard.
func dashboard(t *testing.T) (all []string) {
	t.Helper()
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
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, q := range p.Targets {
			all = append(all, q.Expr)
		}
	}
	return all
}

// queries returns the queries of the dashboard and of the alert rules.
func queries(t *testing.T) []string {
	t.Helper()
	all := dashboard(t)
	text, err := os.ReadFile("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	rules := regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, rules, strings.Count(string(text), "- alert:"))
	for _, q := range rules {
		all = append(all, q[1])
	}
	return all
}

func TestQueriesAskForWhatIsExported(t *testing.T) {
	metrics := exported(t)
	outcomes, err := os.ReadFile("../outcome.go")
	require.NoError(t, err)
	asked := map[string]bool{}
	for _, q := range queries(t) {
		assert.Equal(t, strings.Count(q, "("), strings.Count(q, ")"), q)
		for _, m := range regexp.MustCompile(`\b(redlock_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(withoutGroups(q), -1) {
			name, selector := m[1], m[2]
			labels, ok := metrics[name]
			if !assert.True(t, ok, "%s is not exported: %s", name, q) {
				continue
			}
			asked[name] = true
			for _, l := range regexp.MustCompile(`(\w+)(?:=~|!=|!~|=)"([^"]*)"`).FindAllStringSubmatch(selector, -1) {
				assert.True(t, known(labels, l[1]), "%s has no label %s: %s", name, l[1], q)
				for _, value := range strings.Split(l[2], "|") {
					assert.True(t, value == "" || l[1] == "redlock_resource_class" || l[1] == "redlock_quorums_meet" || strings.HasPrefix(value, "$") || strings.Contains(string(outcomes), `"`+value+`"`), "%s: %s", value, q)
				}
			}
		}
		for _, group := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(q, -1) {
			first := metrics[regexp.MustCompile(`\bredlock_\w+`).FindString(withoutGroups(q))]
			for _, l := range strings.Split(group[1], ",") {
				assert.True(t, known(first, strings.TrimSpace(l)), "no label %s: %s", l, q)
			}
		}
	}
	for name := range metrics {
		if base := regexp.MustCompile(`_(sum|count|bucket)$`).ReplaceAllString(name, ""); strings.HasPrefix(name, "redlock_") {
			assert.True(t, asked[name] || asked[base+"_bucket"], "no panel and no alert looks at %s", name)
		}
	}
}

// withoutGroups returns a query without its lists of labels, which look like metrics.
func withoutGroups(q string) string {
	return regexp.MustCompile(`(by|on) \([^)]*\)`).ReplaceAllString(q, "")
}

// known reports whether a metric has the label, or gets it when it is collected or queried.
func known(labels map[string]bool, label string) bool {
	return labels[label] || slices.Contains([]string{"job", "instance", "le"}, label)
}

func TestThePageIsThere(t *testing.T) {
	_, handler, err := service(redlocktest.New(t, 3).Nodes())
	require.NoError(t, err)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/redlock/", nil))
	assert.Contains(t, w.Body.String(), "<title>redlock</title>")
}
