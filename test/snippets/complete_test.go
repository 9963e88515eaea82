package snippets

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is added to the library, or to docs/, must be found where readers look for it.

// exported returns what a pattern finds in the list of what the library exports.
func exported(t *testing.T, pattern string) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile(`(?m)`+pattern).FindAllStringSubmatch(document(t, "redlock/api.txt"), -1) {
		names = append(names, m[1])
	}
	require.NotEmpty(t, names, pattern)
	return names
}

func requireAll(t *testing.T, file, what string, names []string) {
	t.Helper()
	text := document(t, file)
	for _, name := range names {
		if !strings.Contains(text, "`"+name+"`") {
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

// docs/integrations.md has a row for each module of integrations/, with the version of what it plugs
// into that its tests are run with.
func TestAllIntegrationsAreDescribed(t *testing.T) {
	text := document(t, "docs/integrations.md")
	modules, err := fs.Glob(os.DirFS(root), "integrations/*/go.mod")
	require.NoError(t, err)
	for _, file := range modules {
		module := path.Base(path.Dir(file))
		row := regexp.MustCompile(`(?m)^\|.*\(\.\./integrations/` + module + `/README\.md\).*\|$`).FindString(text)
		if row == "" {
			t.Errorf("docs/integrations.md has no row that leads to integrations/%s/README.md", module)
			continue
		}
		required := document(t, file)
		// What judges an integration by another library may be a module within it.
		within, err := fs.Glob(os.DirFS(root), path.Dir(file)+"/*/go.mod")
		require.NoError(t, err)
		for _, inner := range within {
			required += document(t, inner)
		}
		versions := regexp.MustCompile(`\bv\d+\.\d+\.\d+`).FindAllString(row, -1)
		if len(versions) == 0 {
			t.Errorf("docs/integrations.md does not say which version integrations/%s is tested with", module)
		}
		for _, version := range versions {
			if !strings.Contains(required, " "+version+"\n") {
				t.Errorf("docs/integrations.md has %s for integrations/%s, its go.mod another version", version, module)
			}
		}
	}
}

// docs/testing.md has a row for each profile of the simulation: each test of its list.
func TestAllProfilesAreDescribed(t *testing.T) {
	list, err := os.ReadFile(filepath.Join(root, "test", "simulation", "simulation_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^func (TestSim\w+)\(`).FindAllStringSubmatch(string(list), -1) {
		if !strings.Contains(string(page), "\n| "+m[1]+" |") {
			t.Errorf("docs/testing.md has no row for %s", m[1])
		}
	}
}

// testName is the name of a test, after that of its package where that is said; with … it is the
// beginning of several.
var testName = regexp.MustCompile(`(?:\b([a-z]+)\.)?\b((?:Test|Fuzz|Benchmark)[A-Z]\w+)(…?)`)

func TestAllTestsThatAreNamedExist(t *testing.T) {
	tests := testsByFolder(t)
	for name := range pages(t) {
		for _, m := range testName.FindAllStringSubmatch(document(t, name), -1) {
			is := func(test string) bool { return test == m[2] || m[3] != "" && strings.HasPrefix(test, m[2]) }
			found := m[2] == "TestOnBorrow" // A field of redigo's pools.
			for folder, names := range tests {
				found = found || (m[1] == "" || m[1] == folder) && slices.ContainsFunc(names, is)
			}
			if !found {
				t.Errorf("%s: there is no %s", name, m[0])
			}
		}
	}
}

// testsByFolder returns the names of all tests of the repository, by the last part of their folder.
func testsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		folder := filepath.Base(filepath.Dir(path))
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[folder] = append(tests[folder], m[1])
		}
		return err
	})
	require.NoError(t, err)
	return tests
}
