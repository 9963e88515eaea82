package repository

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	spanRE   = regexp.MustCompile("`[^`]+`")
	figureRE = regexp.MustCompile(`\d+(?:[ .]\d+)*`)
)

// languageLinks are the links that lead from one language to the other, and pictures with words.
var languageLinks = strings.NewReplacer("README.zh-CN.md", "README.md", "lock-zh-", "lock-")

// outlineOf is what READMEs must have in common: by kind, in order where the order counts. Words are not.
func outlineOf(p page, text string) map[string][]string {
	o := map[string][]string{}
	add := func(kind, what string) { o[kind] = append(o[kind], what) }
	for _, b := range p.blocks {
		add("code blocks", b.info+"\n"+b.text)
	}
	for _, l := range p.links {
		target, anchor, _ := strings.Cut(l.target, "#")
		if target == "" {
			target = "an anchor"
		} else if anchor != "" {
			target += "#" + anchor
		}
		add("links", languageLinks.Replace(target))
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
			add("headings", strings.Repeat("#", level))
		}
		if strings.HasPrefix(s, "|") {
			add("rows of tables, with their columns", fmt.Sprint(strings.Count(s, "|")))
		}
		for _, span := range spanRE.FindAllString(s, -1) {
			add("code in the text", span)
		}
		s = spanRE.ReplaceAllString(linkRE.ReplaceAllString(s, ""), "")
		for _, figure := range figureRE.FindAllString(s, -1) {
			add("figures", figure)
		}
	}
	slices.Sort(o["code in the text"])
	slices.Sort(o["figures"])
	return o
}

// The READMEs of both languages have the same sections, code, links, tables and figures, so that neither is forgotten when
// the other one changes.
func TestTheREADMEsOfBothLanguagesAgree(t *testing.T) {
	all := pages(t)
	of := func(name string) map[string][]string { return outlineOf(all[name], document(t, name)) }
	assert.Equal(t, of("README.md"), of("README.zh-CN.md"))
}

// What the README and docs/migrating.md say of speed and size is in the tables that were measured:
// who measures again must not leave the old figures there.

// measured returns a figure of docs/generated/benchmarks.md: in a part, the third cell of the only row of a table that
// begins with these two. The first table of a part has operations a second, the second one redlock's ratio to its peers.
func measured(t *testing.T, part string, table int, first, second string) float64 {
	t.Helper()
	_, text, _ := strings.Cut(document(t, "docs/generated/benchmarks.md"), "<!-- bench:"+part+" -->")
	text, _, _ = strings.Cut(text, "<!-- /bench -->")
	tables := regexp.MustCompile(`(?m)(?:^\|.*\n)+`).FindAllString(text, -1)
	require.Greater(t, len(tables), table, "docs/generated/benchmarks.md: tables of %s", part)
	found := regexp.MustCompile(`(?m)^\| `+first+` \| `+second+` \| ([^|]+) \|`).FindAllStringSubmatch(tables[table], -1)
	require.Len(t, found, 1, "docs/generated/benchmarks.md: rows of %s for %s, %s", part, first, second)
	n, err := strconv.ParseFloat(strings.ReplaceAll(found[0][1], "\u00a0", ""), 64)
	require.NoError(t, err)
	return n
}

// span returns the least and the largest of the clients' figures, each divided by unit.
func span(t *testing.T, table int, unit float64, clients ...string) (least, most string) {
	t.Helper()
	low, high := measured(t, "throughput", table, "64", clients[0]), 0.0
	for _, client := range clients {
		n := measured(t, "throughput", table, "64", client)
		low, high = min(low, n), max(high, n)
	}
	return fmt.Sprintf("%.1f", low/unit), fmt.Sprintf("%.1f", high/unit)
}

var pools = []string{"redsync-redigo", "redsync-redigo-failfast", "redsync-goredis", "redsync-goredis-failfast"}

func TestTheFiguresOfTheComparisonAreMeasured(t *testing.T) {
	const thousand = 1000
	least, most := span(t, 0, thousand, append([]string{"redsync-rueidis", "redsync-rueidis-failfast"}, pools...)...)
	of := func(part, first, client string) string {
		return fmt.Sprintf("%.1f", measured(t, part, 0, first, client)/thousand)
	}
	footprint := func(client string) string {
		found := regexp.MustCompile(`(?m)^\| ` + client + ` \| \d+ \| (\d+) \| ([\d.]+ MB) \|`).
			FindStringSubmatch(document(t, "docs/generated/footprint.md"))
		require.NotNil(t, found, "docs/generated/footprint.md has no row of %s", client)
		return found[1] + ", " + found[2]
	}
	_, said, _ := strings.Cut(document(t, "docs/migrating.md"), "## Side by side\n")
	for _, want := range []string{
		"| thousand locks a second, 64 goroutines, [5 nodes](benchmarks.md#throughput) | " + of("throughput", "64", "redlock") +
			" | " + least + " to " + most +
			" | 1 node, 0.9.4: " + of("nodes", "1", "redislock") +
			", [here " + of("nodes", "1", "redlock") + "](benchmarks.md#more-and-fewer-nodes)" +
			" | 1 node: " + of("nodes", "1", "rueidislock") + " | not measured | 1 member: 8.9 |\n",
		"([how measured](generated/footprint.md)) | " + footprint("redlock") + " | " + footprint("redsync") + " |",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("docs/migrating.md does not say %q", want)
		}
	}
}

func TestTheFiguresOfThroughputAreMeasured(t *testing.T) {
	least, most := span(t, 1, 1, pools...)
	ratio := func(part, goroutines string) string {
		return fmt.Sprintf("%.2f", measured(t, part, 1, goroutines, "without"))
	}
	for says, page := range map[string]string{
		"[" + least + " to " + most + " times]":                 "README.md",
		"[" + least + " 至 " + most + " 倍]":                      "README.zh-CN.md",
		"[" + ratio("fencing", "64") + " of the throughput]":    "docs/fencing.md",
		"and " + ratio("fencing", "1") + " for a lone caller":   "docs/fencing.md",
		"[" + ratio("quarantine", "64") + " of the throughput]": "docs/operations.md",
	} {
		assert.Contains(t, strings.Join(strings.Fields(document(t, page)), " "), says, page)
	}
}
