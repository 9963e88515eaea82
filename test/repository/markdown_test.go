package repository

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// A block is a fenced code block of a Markdown file.
type block struct {
	file string
	line int    // of the first line of text
	info string // what follows the opening fence
	text string
}

// A link is the target of a Markdown link or image.
type link struct {
	line   int
	target string
}

// A page is what the checks need of a Markdown file.
type page struct {
	blocks  []block
	links   []link
	long    []int // lines with more than maxLine characters, outside of tables and code blocks
	anchors map[string]bool
}

const maxLine = 120

var (
	fenceRE    = regexp.MustCompile("^( *(?:> ?)*(?:[-*+] +|[0-9]+[.)] +)?)(`{3,}|~{3,})([^`]*)$")
	itemRE     = regexp.MustCompile(`^ *([-*+] +|[0-9]+[.)] +|#+ +)`)
	headingRE  = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	codeSpanRE = regexp.MustCompile("(`+)[^`].*?(`+)")
	linkRE     = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+["'(][^)]*)?\)`)
	linkDefRE  = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	linkHTMLRE = regexp.MustCompile(`(?i)<(?:a|img|source)\s[^>]*(?:href|src|srcset)="([^"]+)"`)
	anchorRE   = regexp.MustCompile(`(?i)<[a-z0-9]+\s[^>]*(?:id|name)="([^"]+)"`)
	linkTextRE = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	tagRE      = regexp.MustCompile(`<[^>]*>`)
	notSlugRE  = regexp.MustCompile(`[^\p{L}\p{M}\p{N}\p{Pc}\- ]`)
)

// parseMarkdown reads what the checks need: fenced blocks, links, headings and long lines.
// It returns an error for a fence that is never closed.
func parseMarkdown(file, text string) (page, error) {
	p := page{anchors: map[string]bool{}}
	var open *block
	var fence string
	var indent int
	var body []string
	for i, s := range strings.Split(text, "\n") {
		s = strings.TrimSuffix(s, "\r")
		if open != nil {
			if t := strings.TrimSpace(s); strings.HasPrefix(t, fence) && strings.Trim(t, fence[:1]) == "" {
				open.text = strings.Join(body, "\n")
				p.blocks = append(p.blocks, *open)
				open, body = nil, nil
				continue
			}
			// A block in a list is indented as far as its fence.
			n := 0
			for n < indent && n < len(s) && s[n] == ' ' {
				n++
			}
			body = append(body, s[n:])
			continue
		}
		if m := fenceRE.FindStringSubmatch(s); m != nil {
			open = &block{file: file, line: i + 2, info: strings.TrimSpace(m[3])}
			indent, fence = len(m[1]), m[2]
			continue
		}
		if utf8.RuneCountInString(s) > maxLine && canBreak(s) {
			p.long = append(p.long, i+1)
		}
		if m := headingRE.FindStringSubmatch(s); m != nil {
			p.addAnchor(slug(m[1]))
		}
		s = codeSpanRE.ReplaceAllString(s, "")
		for _, m := range anchorRE.FindAllStringSubmatch(s, -1) {
			p.anchors[m[1]] = true
		}
		for _, re := range []*regexp.Regexp{linkRE, linkDefRE, linkHTMLRE} {
			for _, m := range re.FindAllStringSubmatch(s, -1) {
				p.links = append(p.links, link{line: i + 1, target: m[1]})
			}
		}
	}
	if open != nil {
		return p, fmt.Errorf("%s:%d: the code block is never closed", file, open.line-1)
	}
	return p, nil
}

// canBreak reports whether a line can be made shorter: it is no row of a table, and more than
// one word.
func canBreak(s string) bool {
	return !strings.HasPrefix(strings.TrimSpace(s), "|") && len(strings.Fields(itemRE.ReplaceAllString(s, ""))) > 1
}

// addAnchor adds a heading's anchor, numbered if there is one like it.
func (p *page) addAnchor(s string) {
	a := s
	for n := 1; p.anchors[a]; n++ {
		a = fmt.Sprintf("%s-%d", s, n)
	}
	p.anchors[a] = true
}

// slug makes a heading's anchor, as GitHub does.
func slug(heading string) string {
	s := linkTextRE.ReplaceAllString(heading, "$1")
	if !strings.Contains(s, "`") {
		s = tagRE.ReplaceAllString(s, "")
	}
	s = notSlugRE.ReplaceAllString(strings.ToLower(s), "")
	return strings.ReplaceAll(s, " ", "-")
}
