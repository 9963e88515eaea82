package snippets

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What is added to the library, or to docs/, must be found where readers look for it.

// exported returns what a pattern finds in the list of what the library exports.
func exported(t *testing.T, pattern string) []string {
	t.Helper()
	api, err := os.ReadFile(filepath.Join(root, "redlock", "api.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(string(api), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		t.Fatalf("nothing exported is like %s", pattern)
	}
	return names
}

func requireAll(t *testing.T, file, what string, names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("%s lacks the %s %s", file, what, name)
		}
	}
}

func TestAllOptionsAreDescribed(t *testing.T) {
	requireAll(t, "docs/defaults.md", "option", exported(t, `^func (With\w+)\(`))
}

func TestAllErrorsAreDescribed(t *testing.T) {
	requireAll(t, "docs/errors.md", "error", exported(t, `^var (Err\w+) error`))
}

func TestTheIndexHasAllDocuments(t *testing.T) {
	all := pages(t)
	linked := map[string]bool{}
	for _, l := range all["docs/README.md"].links {
		target, _, _ := strings.Cut(l.target, "#")
		linked[filepath.ToSlash(filepath.Join("docs", target))] = true
	}
	for name := range all {
		if strings.HasPrefix(name, "docs/") && name != "docs/README.md" && !linked[name] {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}
