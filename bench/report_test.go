package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"

	"github.com/seed6c881748/redlock/test/tables"
)

// latencyPlace is where a document has what the part latency reports.
const latencyPlace = "<!-- bench:latency -->\nold\n<!-- /bench -->\n"

// written returns a folder with such a document.
func written(t *testing.T, text string) document {
	t.Helper()
	d := document{t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(d.folder, documentName), []byte(text), 0o600))
	return d
}

func (d document) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(d.folder, documentName))
	require.NoError(t, err)
	return string(text)
}

// TestReport: tables, notes and plots of a part are in its place, and the plots in files.
func TestReport(t *testing.T) {
	d := written(t, "# By hand\n\n"+latencyPlace)
	p := part{"latency", func(_ settings, out *section) error {
		table := tables.New("Latency | of one caller", "client", "op/s")
		table.Add("redlock", "12345")
		c := chart{title: "Locks <per> second", x: "goroutines"}
		for _, client := range []string{"redlock", "redsync"} {
			c.add(client, plotter.XY{X: 1, Y: 6_387})
			c.add(client, plotter.XY{X: 64, Y: 42_984})
		}
		return errors.Join(out.table(table), out.plot("latency", c))
	}}
	require.NoError(t, p.report(settings{write: d.folder}, io.Discard, "go1.26."))
	want := strings.Join([]string{
		"# By hand",
		"",
		"<!-- bench:latency -->",
		"",
		"<picture>",
		`  <source media="(prefers-color-scheme: dark)" srcset="plots/latency-dark.svg">`,
		`  <img src="plots/latency-light.svg" alt="Locks &lt;per&gt; second, a line per client">`,
		"</picture>",
		"",
		"Latency | of one caller.",
		"",
		"| client | op/s |",
		"|---|---:|",
		"| redlock | 12\u00a0345 |",
		"",
		"Measured with: go1.26.",
		"",
		"<!-- /bench -->",
		"",
	}, "\n")
	require.Equal(t, want, d.text(t))
	for _, file := range []string{"latency-light.svg", "latency-dark.svg"} {
		svg, err := os.ReadFile(filepath.Join(d.folder, plotFolder, file))
		require.NoError(t, err)
		require.Contains(t, string(svg), "redsync")
	}
}
