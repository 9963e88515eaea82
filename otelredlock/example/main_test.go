package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

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
