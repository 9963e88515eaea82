package snippets

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The checks themselves are checked: they find what is wrong, where it is, and
// nothing else.

func TestParseMarkdown(t *testing.T) {
	text := strings.ReplaceAll(strings.Join([]string{
		"# Title, with `code` and [a link](x.md)",
		"See [one](a.md#b) and ![three](c.png \"title\").",
		"Not `[code](no.md)`, not ``[code](`no.md)``.",
		"'''go",
		"first := 1 // [no](no.md)",
		"'''",
		"## Again",
		"## Again ##",
		"* In a list:",
		"",
		"  '''go mayfail",
		"  if second {",
		"  \treturn",
		"  }",
		"  '''",
		"<a id=\"here\"></a> <img src=\"d.png\">",
		"~~~",
		"'''go",
		"~~~",
		"[def]: e.md",
		"",
	}, "\n"), "'''", "```")
	p, err := parseMarkdown("f.md", text)
	require.NoError(t, err)

	assert.Equal(t, []block{
		{"f.md", 5, "go", "first := 1 // [no](no.md)"},
		{"f.md", 12, "go mayfail", "if second {\n\treturn\n}"},
		{"f.md", 18, "", "```go"},
	}, p.blocks)
	assert.Equal(t, []link{{1, "x.md"}, {2, "a.md#b"}, {2, "c.png"}, {16, "d.png"}, {20, "e.md"}}, p.links)
	assert.Equal(t, map[string]bool{"title-with-code-and-a-link": true, "again": true, "again-1": true, "here": true}, p.anchors)

	_, err = parseMarkdown("f.md", "\n```go\nx\n")
	require.ErrorContains(t, err, "f.md:2:")
}

func TestLongLines(t *testing.T) {
	word, words := strings.Repeat("x", maxLine), strings.Repeat("ä ", maxLine/2)
	text := strings.ReplaceAll(strings.Join([]string{
		words[:len(words)-1],
		words + "y",
		"| " + words + "|",
		"  * " + word,
		"[" + word + "](x.md)",
		"See [" + word + "](x.md)",
		"'''",
		words + "y",
		"'''",
		"## " + words,
	}, "\n"), "'''", "```")
	p, err := parseMarkdown("f.md", text)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 6, 10}, p.long)
}

func TestCheckLink(t *testing.T) {
	all := map[string]page{"docs/x.md": {anchors: map[string]bool{"a": true}}}
	for target, want := range map[string]string{
		"#a":                     "",
		"#b":                     "no heading of docs/x.md",
		"x.md":                   "no file",
		"../go.mod":              "",
		"../redlock/":            "",
		"../go.mod#L3":           "",
		"../../go.mod":           "leaves the repository",
		"https://example.com/#b": "",
		"mailto:a@example.com":   "",
	} {
		if err := checkLink(all, "docs/x.md", target); want == "" {
			assert.NoError(t, err, target)
		} else {
			assert.ErrorContains(t, err, want, target)
		}
	}
}
