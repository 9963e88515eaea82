package repository

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// Who comes by reads no more than this.
func TestTheREADMEsAreShort(t *testing.T) {
	const most = 135
	for _, name := range []string{"README.md", "README.zh-CN.md"} {
		if lines := strings.Count(document(t, name), "\n"); lines > most {
			t.Errorf("%s has %d lines, of at most %d", name, lines, most)
		}
	}
}
