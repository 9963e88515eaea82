package snippets

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The READMEs of both languages have the same sections, code, links, tables and figures, so that
// neither is forgotten when the other one changes.

// An outline is what READMEs must have in common. Words are not.
type outline struct {
	headings []string // their levels
	blocks   []string
	links    []string // in order, without anchors
	rows     []string // of tables: how many columns each has
	spans    map[string]int
	figures  map[string]int
}

var (
	spanRE   = regexp.MustCompile("`[^`]+`")
	figureRE = regexp.MustCompile(`\d+(?:[ .]\d+)*`)
)

// languageLinks are the links that lead from one language to the other, and pictures with words.
var languageLinks = strings.NewReplacer("README.zh-CN.md", "README.md", "lock-zh-", "lock-")

func outlineOf(p page, text string) outline {
	o := outline{spans: map[string]int{}, figures: map[string]int{}}
	for _, b := range p.blocks {
		o.blocks = append(o.blocks, b.info+"\n"+b.text)
	}
	for _, l := range p.links {
		target, anchor, _ := strings.Cut(l.target, "#")
		if target == "" {
			target = "an anchor"
		} else if anchor != "" {
			target += "#" + anchor
		}
		o.links = append(o.links, languageLinks.Replace(target))
	}
	open := false
	for s := range strings.Lines(text) {
		if strings.HasPrefix(s, "```") {
			open = !open
		}
		if open {
			continue
		}
		if level := len(s) - len(strings.TrimLeft(s, "#")); level > 0 {
			o.headings = append(o.headings, strings.Repeat("#", level))
		}
		if strings.HasPrefix(s, "|") {
			o.rows = append(o.rows, fmt.Sprint(strings.Count(s, "|")))
		}
		for _, span := range spanRE.FindAllString(s, -1) {
			o.spans[span]++
		}
		s = spanRE.ReplaceAllString(linkRE.ReplaceAllString(s, ""), "")
		for _, figure := range figureRE.FindAllString(s, -1) {
			o.figures[figure]++
		}
	}
	return o
}

// differences says in what two outlines differ.
func differences(a, b outline) []string {
	var found []string
	for _, x := range []struct {
		what string
		a, b []string
	}{
		{"headings", a.headings, b.headings},
		{"code blocks", a.blocks, b.blocks},
		{"links", a.links, b.links},
		{"rows of tables, with their columns", a.rows, b.rows},
		{"code in the text", counted(a.spans), counted(b.spans)},
		{"figures", counted(a.figures), counted(b.figures)},
	} {
		if !slices.Equal(x.a, x.b) {
			found = append(found, fmt.Sprintf("%s: %q and %q", x.what, without(x.a, x.b), without(x.b, x.a)))
		}
	}
	return found
}

// counted lists what a map counts, sorted.
func counted(m map[string]int) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprint(key, " × ", m[key]))
	}
	return all
}

// without returns those of a that are not in b; all of a if there are none, as then the order differs.
func without(a, b []string) []string {
	rest := slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
	if len(rest) == 0 {
		return a
	}
	return rest
}

func TestTheREADMEsOfBothLanguagesAgree(t *testing.T) {
	all := pages(t)
	var outlines []outline
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		outlines = append(outlines, outlineOf(all[name], document(t, name)))
	}
	assert.Empty(t, differences(outlines[0], outlines[1]), "README.md and README.zh-CN.md differ")
}

func TestDifferences(t *testing.T) {
	base := "# One\nIn `go.mod`, 42 500 [x](a.md#b).\n\n```go\nx := 1\n```\n| a | b |\n"
	for name, tt := range map[string]struct {
		text string
		want string // what differs
	}{
		"words":   {strings.NewReplacer("One", "Eins", "In", "Im").Replace(base), ""},
		"heading": {strings.Replace(base, "# One", "## One", 1), "headings"},
		"code":    {strings.Replace(base, "x := 1", "x := 2", 1), "code blocks"},
		"link":    {strings.Replace(base, "a.md#b", "a.md#c", 1), "links"},
		"row":     {base + "| c | d |\n", "rows of tables, with their columns"},
		"span":    {strings.Replace(base, "`go.mod`", "`go.sum`", 1), "code in the text"},
		"figure":  {strings.Replace(base, "42 500", "42 600", 1), "figures"},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) outline {
				p, err := parseMarkdown("f.md", text)
				require.NoError(t, err)
				return outlineOf(p, text)
			}
			found := ""
			for _, d := range differences(parse(base), parse(tt.text)) {
				what, _, _ := strings.Cut(d, ": ")
				found += what
			}
			assert.Equal(t, tt.want, found)
		})
	}
}
