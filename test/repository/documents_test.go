// Package repository checks that the repository says what is there.
//
// It checks the documents of the root, but for CHANGELOG.md, and docs/: each Go block compiles, and runs on real servers;
// each relative link leads to a file, and to a heading of it; no line is longer than 120 characters, tables and code blocks
// aside; the READMEs of both languages say the same; and what is named or cited is there. The READMEs of integrations are
// checked as well, but their Go is only compiled, in their modules. It also checks the exported API, the examples of godoc,
// and what packages import.
//
// A block that begins with a package clause is a program. Any other block is declarations or statements; these are the body
// of a function that returns an error, see [statements]. The packages of imports are imported for a block that has no
// imports of its own: one that has some has all that it needs, as readers will copy it so.
//
// The folder publish is a module of its own, as it takes what the library's users should not get. It checks what the
// repository publishes.
package repository

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	// Go's test cache must know that the result depends on them.
	_ "github.com/seed6c881748/redlock/redlock"
	_ "github.com/seed6c881748/redlock/redlock/dial"
	_ "github.com/seed6c881748/redlock/redlock/election"
	_ "github.com/seed6c881748/redlock/redlock/redlockcheck"
	_ "github.com/seed6c881748/redlock/redlock/redlockhttp"
	_ "github.com/seed6c881748/redlock/redlock/redlocktest"
	_ "github.com/seed6c881748/redlock/redlock/semaphore"
	_ "github.com/seed6c881748/redlock/redlock/shared"
	_ "github.com/seed6c881748/redlock/redlock/stored"
	_ "github.com/seed6c881748/redlock/redlock/ticks"
)

const (
	root    = "../.."
	module  = "github.com/seed6c881748/redlock"
	library = module + "/redlock"
)

// pages reads the files to check, which are Markdown.
func pages(t *testing.T) map[string]page {
	t.Helper()
	found := map[string]page{}
	for _, pattern := range []string{"*.md", "llms.txt", "docs/*.md", "docs/generated/*.md", "integrations/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		require.NoError(t, err)
		for _, path := range files {
			if filepath.Base(path) != "CHANGELOG.md" { // It tells of versions that are past, with the names of then.
				require.NoError(t, readPage(found, path))
			}
		}
	}
	return found
}

// document is the text of a file, by its path from the root.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(text)
}

// readPage adds a file to those that were read, by its path from the root.
func readPage(all map[string]page, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	name = filepath.ToSlash(name)
	all[name], err = parseMarkdown(name, string(text))
	return err
}

// documents are the pages, and all other Markdown files of the repository: their links and lines are
// checked, their Go is not.
func documents(t *testing.T) map[string]page {
	t.Helper()
	all := pages(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md" || d.Name() == "CHANGELOG.md":
			return nil
		}
		return readPage(all, path)
	})
	require.NoError(t, err)
	return all
}

func TestLinks(t *testing.T) {
	all := documents(t)
	for name, p := range all {
		for _, l := range p.links {
			assert.NoError(t, checkLink(all, name, l.target), "%s:%d", name, l.line)
		}
	}
}

// What tells somebody what is wrong says where to read on: each alert by a link, the page and the tool, too.
func TestLinksOfWhatTellsWhatIsWrong(t *testing.T) {
	all := documents(t)
	for name, prefix := range map[string]string{
		"docs/telemetry/alerts.yaml": "blob/main/docs/", "redlock/redlockhttp/wrong.go": `"`, "cmd/redlock/words.go": "docs/",
	} {
		text := document(t, name)
		links := regexp.MustCompile(regexp.QuoteMeta(prefix)+`(\w+\.md#[\w-]+)`).FindAllStringSubmatch(text, -1)
		assert.GreaterOrEqual(t, len(links), max(strings.Count(text, "- alert:"), 1), "%s: links to documents", name)
		for _, l := range links {
			assert.NoError(t, checkLink(all, "docs/README.md", l[1]), name)
		}
	}
}

func TestLineLength(t *testing.T) {
	for name, p := range documents(t) {
		for _, line := range p.long {
			t.Errorf("%s:%d: more than %d characters in a line", name, line, maxLine)
		}
	}
}

// checkLink checks a link in the file name, unless it leaves the repository.
func checkLink(all map[string]page, name, target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	if u.Scheme != "" || u.Host != "" {
		return nil
	}
	file := name
	if u.Path != "" {
		file = filepath.ToSlash(filepath.Join(filepath.Dir(name), u.Path))
		if !filepath.IsLocal(file) {
			return fmt.Errorf("the link %s leaves the repository", target)
		}
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			return fmt.Errorf("the link %s leads to no file", target)
		}
	}
	if u.Fragment == "" || !strings.HasSuffix(file, ".md") {
		return nil
	}
	p, ok := all[file]
	if !ok {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		if p, err = parseMarkdown(file, string(text)); err != nil {
			return err
		}
	}
	if !p.anchors[u.Fragment] {
		return fmt.Errorf("the link %s leads to no heading of %s", target, file)
	}
	return nil
}
