package repository

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

// docs/integrations.md has a row for each module of integrations/, with versions that its tests are run with.
func TestAllIntegrationsAreDescribed(t *testing.T) {
	text := document(t, "docs/integrations.md")
	modules, err := fs.Glob(os.DirFS(root), "integrations/*/go.mod")
	require.NoError(t, err)
	for _, file := range modules {
		module := path.Base(path.Dir(file))
		row := regexp.MustCompile(`(?m)^\|.*\(\.\./integrations/` + module + `/README\.md\).*\|$`).FindString(text)
		assert.NotEmpty(t, row, "docs/integrations.md has no row that leads to integrations/%s/README.md", module)
		required := document(t, file)
		// What judges an integration by another library may be a module within it.
		within, err := fs.Glob(os.DirFS(root), path.Dir(file)+"/*/go.mod")
		require.NoError(t, err)
		for _, inner := range within {
			required += document(t, inner)
		}
		for _, version := range regexp.MustCompile(`\bv\d+\.\d+\.\d+`).FindAllString(row, -1) {
			assert.Contains(t, required, " "+version+"\n", "docs/integrations.md has another version of %s than its go.mod", module)
		}
	}
}

// docs/testing.md has a row for each profile of the simulation: each test of its list.
func TestAllProfilesAreDescribed(t *testing.T) {
	list, page := document(t, "test/simulation/simulation_test.go"), document(t, "docs/testing.md")
	for _, m := range regexp.MustCompile(`(?m)^func (TestSim\w+)\(`).FindAllStringSubmatch(list, -1) {
		if !strings.Contains(page, "\n| "+m[1]+" |") {
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

// llms.txt is read by assistants, which write code from it without a look at the rest: what it
// names is there, and its signatures are those of the code.

// nameRE finds what is like an exported name in a span of code: Name, Type.Name, package.Name,
// each also as a call.
var nameRE = regexp.MustCompile("`(?:([A-Za-z]+)\\.)?([A-Z]\\w+)(?:\\([^`]*\\))?`")

// apiNames returns what a package exports: its names, and Type.Name for fields and methods.
func apiNames(api string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(?:const|var|func|type) (\w+)`).FindAllStringSubmatch(api, -1) {
		names = append(names, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^(?:field |method \(?\*?)(\w+)[.)]+ ?(\w+)`).FindAllStringSubmatch(api, -1) {
		names = append(names, m[2], m[1]+"."+m[2])
	}
	return names
}

// unknownNames returns the names in text that no package has. apis are the lists of what packages export, by their names;
// redlock's need not be named.
func unknownNames(text string, apis map[string]string) []string {
	var all, unknown []string
	byPackage := map[string][]string{}
	for name, api := range apis {
		byPackage[name] = apiNames(api)
		all = append(all, byPackage[name]...)
	}
	for _, m := range nameRE.FindAllStringSubmatch(text, -1) {
		names, of := byPackage[m[1]]
		switch {
		case m[1] == "context" || m[1] == "errors": // The standard library's.
		case of && slices.Contains(names, m[2]):
		case m[1] == "" && slices.Contains(all, m[2]):
		case slices.Contains(all, m[1]+"."+m[2]):
		default:
			unknown = append(unknown, m[0])
		}
	}
	return unknown
}

func TestTheNamesForAssistantsExist(t *testing.T) {
	apis := map[string]string{
		"redlock": document(t, "redlock/api.txt"), "semaphore": document(t, "redlock/semaphore/api.txt"),
		"election": document(t, "redlock/election/api.txt"), "redlocktest": document(t, "redlock/redlocktest/api.txt"),
		"shared": document(t, "redlock/shared/api.txt"),
	}
	assert.Empty(t, unknownNames(document(t, "llms.txt"), apis), "nothing exported is so")

	code := strings.Split(strings.ReplaceAll(apis["redlock"], "\nmethod ", "\nfunc "), "\n")
	checked := 0
	for _, b := range pages(t)["llms.txt"].blocks {
		if b.info != "signatures" {
			continue
		}
		for line := range strings.Lines(b.text) {
			if line = strings.TrimSpace(line); !slices.Contains(code, line) {
				t.Errorf("llms.txt: redlock/api.txt has no %s", line)
			}
			checked++
		}
	}
	assert.GreaterOrEqual(t, checked, 12, "signatures")
}

// docs/code.md says where everything is: its table has all folders, and what it names is there.

var (
	rowRE  = regexp.MustCompile(`(?m)^\| ([\w/, ]+) \|`)
	fileRE = regexp.MustCompile(`[\w./*-]*\w\.(?:go|lua)\b`)
)

// sources returns the paths of all files of Go and Lua, from the root.
func sources(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "testdata" || path != root && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(path); ext == ".go" || ext == ".lua" {
			name, _ := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(name))
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func matches(pattern, path string) bool {
	ok, _ := filepath.Match(pattern, path)
	return ok
}

// The table has every folder of the library, of the tests and of the proofs. Of other modules it has the first one at least.
func TestTheMapHasAllFolders(t *testing.T) {
	_, table, _ := strings.Cut(document(t, "docs/code.md"), "\n## The folders\n")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for _, row := range rowRE.FindAllStringSubmatch(table, -1) {
		for _, folder := range strings.Split(row[1], ", ") {
			if info, err := os.Stat(filepath.Join(root, folder)); folder != "folder" && (err != nil || !info.IsDir()) {
				t.Errorf("the map has %s, which is no folder", folder)
			}
			listed[folder] = true
		}
	}
	for _, path := range sources(t) {
		parts := strings.Split(path, "/")
		if len(parts) == 1 || filepath.Ext(path) != ".go" {
			continue
		}
		folder := strings.Join(parts[:min(2, len(parts)-1)], "/")
		each := slices.Contains([]string{"redlock", "internal", "test", "proof"}, parts[0])
		if !listed[folder] && (each || !listed[parts[0]]) {
			t.Errorf("the map lacks %s", folder)
			listed[folder] = true
		}
	}
}

func TestFilesThatTheMapNamesExist(t *testing.T) {
	all := sources(t)
	for _, name := range fileRE.FindAllString(document(t, "docs/code.md"), -1) {
		if !slices.ContainsFunc(all, func(path string) bool { return isAt(path, name) }) {
			t.Errorf("there is no %s", name)
		}
	}
}

// isAt reports whether a path ends with what a document calls the file, which may have stars.
func isAt(path, name string) bool {
	parts, ends := strings.Split(path, "/"), strings.Split(strings.TrimPrefix(name, "/"), "/")
	return len(parts) >= len(ends) && matches(strings.Join(ends, "/"), strings.Join(parts[len(parts)-len(ends):], "/"))
}
