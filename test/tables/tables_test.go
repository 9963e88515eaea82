package tables

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkdown(t *testing.T) {
	t.Parallel()
	table := New("Latency | of one caller", "client", "p50 µs", "op/s", "kept")
	table.Add("redlock", "82.5", "12345")
	table.Group("others")
	table.Add("a|b", "-", "999", "1 lock, 2 calls")
	require.Equal(t, strings.Join([]string{
		"Latency | of one caller.",
		"",
		"| client | p50 µs | op/s | kept |",
		"|---|---:|---:|---|",
		"| redlock | 82.5 | 12\u00a0345 | |",
		"| **others** | | | |",
		`| a\|b | - | 999 | 1 lock, 2 calls |`,
		"",
	}, "\n"), table.Markdown())
	require.Equal(t, "| a | b |\n|---|---|\n", New("", "a", "b").Markdown())
}

// Only the place itself changes, and the second time there is something to replace.
func TestFill(t *testing.T) {
	t.Parallel()
	const before, after = "By hand.\n<!-- x:one two -->\nold\n<!-- /x -->\n", "\nMore.\n<!-- y:three -->\n<!-- /y -->\n"
	document := before + "<!-- x:three -->\nold\n<!-- /x -->" + after
	require.Equal(t, []Place{{"x", "one two"}, {"x", "three"}}, Places(document, "x"))
	for range 2 {
		var err error
		document, err = Place{"x", "three"}.Fill(document, "\nnew\n")
		require.NoError(t, err)
		require.Equal(t, before+"<!-- x:three -->\n\nnew\n\n<!-- /x -->"+after, document)
	}
	const place = "<!-- x:one -->\n<!-- /x -->\n"
	for text, want := range map[string]string{
		"none":             `no line "<!-- x:one -->"`,
		place + place:      "two lines",
		"<!-- x:one -->\n": `no line "<!-- /x -->" ends`,
		"<!-- x:one -->\n<!-- x:two -->\n<!-- /x -->\n": "ends",
	} {
		_, err := Place{"x", "one"}.Fill(text, "")
		require.ErrorContains(t, err, want, text)
	}
}
