// Package snippets checks the documents of the root, but for CHANGELOG.md, and docs/: each Go
// block compiles, and runs on real servers; each relative link leads to a file, and to a heading of
// it; no line is longer than 120 characters, tables and code blocks aside; and the READMEs of both
// languages say the same. The READMEs of integrations are checked as well, but their Go is only
// compiled, in their modules.
//
// A block that begins with a package clause is a file of its own and must
// compile as it stands. Any other block is a fragment: declarations, or
// statements, which are taken as the body of a function that returns as many
// results as its return statements. The packages of fragmentImports are
// imported for it, and it may use the names of fragmentNames. A variable that a
// fragment declares and does not use is no error.
//
// A block that has imports has all that it needs, as readers will copy it so.
//
// A block of which the first line is "```go nocheck" is not checked.
package snippets

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

const library = "github.com/seed6c881748/redlock/redlock"

// fragmentImports are the packages that a fragment can use without an import.
var fragmentImports = map[string]string{
	"atomic":       "sync/atomic",
	"context":      "context",
	"errors":       "errors",
	"fmt":          "fmt",
	"http":         "net/http",
	"log":          "log",
	"net":          "net",
	"os":           "os",
	"redis":        "github.com/gomodule/redigo/redis",
	"redlock":      library,
	"redlockcheck": library + "/redlockcheck",
	"redlocktest":  library + "/redlocktest",
	"semaphore":    library + "/semaphore",
	"signal":       "os/signal",
	"slog":         "log/slog",
	"sql":          "database/sql",
	"strconv":      "strconv",
	"strings":      "strings",
	"sync":         "sync",
	"syscall":      "syscall",
	"testing":      "testing",
	"time":         "time",
	"tls":          "crypto/tls",
	"x509":         "crypto/x509",
}

// fragmentNames are the names that a fragment can use without declaring them.
// Declaring one of them in a fragment hides the one here.
var fragmentNames = map[string]string{
	"ctx":       "var ctx context.Context",
	"db":        "var db *sql.DB",
	"err":       "var err error",
	"l":         "var l *redlock.Lock",
	"lock":      "var lock *redlock.Lock",
	"logger":    "var logger *slog.Logger",
	"nodes":     "var nodes []redlock.Node",
	"pool":      "var pool *redis.Pool",
	"r":         "var r *redlock.Redlock",
	"req":       "var req *http.Request",
	"resources": "var resources []string",
	"rl":        "var rl *redlock.Redlock",
	"t":         "var t *testing.T",
	"ttl":       "var ttl time.Duration",
	"w":         "var w http.ResponseWriter",
	"work":      "func work(context.Context) error { return nil }",
}

// pages reads the files to check, which are Markdown.
func pages(t *testing.T) map[string]page {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "llms.txt", "docs/*.md", "docs/generated/*.md", "integrations/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	found := map[string]page{}
	for _, path := range files {
		if filepath.Base(path) == "CHANGELOG.md" {
			continue // It tells of versions that are past, with the names of then.
		}
		if err := readPage(found, path); err != nil {
			t.Error(err)
		}
	}
	return found
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

func TestSnippets(t *testing.T) {
	goBlocks := goBlocks(t)
	if len(goBlocks) == 0 {
		t.Log("no Go blocks")
		return
	}
	byModule := map[string][]block{}
	for _, b := range goBlocks {
		byModule[moduleOf(b)] = append(byModule[moduleOf(b)], b)
	}
	for _, module := range slices.Sorted(maps.Keys(byModule)) {
		// Go's test cache looks at the files that a test opened, and the packages are
		// read by another program: so open their folders here.
		for _, folder := range []string{"redlock", module} {
			if _, err := os.ReadDir(filepath.Join(root, folder)); err != nil {
				t.Fatal(err)
			}
		}
		c := newChecker(t, module, byModule[module])
		for _, b := range byModule[module] {
			t.Run(fmt.Sprintf("%s:%d", b.file, b.line), func(t *testing.T) {
				for _, err := range c.check(b) {
					t.Error(err)
				}
			})
		}
	}
}

// moduleOf is the folder of the module whose packages a block may import.
func moduleOf(b block) string {
	if strings.HasPrefix(b.file, "integrations/") {
		return path.Dir(b.file)
	}
	return "."
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
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLinks(t *testing.T) {
	all := documents(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, l := range all[name].links {
			if err := checkLink(all, name, l.target); err != nil {
				t.Errorf("%s:%d: %v", name, l.line, err)
			}
		}
	}
}

// What tells somebody what is wrong says where to read on: each alert by a link, the page and the tool, too.
func TestLinksOfWhatTellsWhatIsWrong(t *testing.T) {
	all := documents(t)
	for name, prefix := range map[string]string{
		"docs/telemetry/alerts.yaml": "blob/main/docs/", "redlock/redlockhttp/wrong.go": `"`, "cmd/redlock/next.go": "docs/",
	} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		links := regexp.MustCompile(regexp.QuoteMeta(prefix)+`(\w+\.md#[\w-]+)`).FindAllStringSubmatch(string(text), -1)
		if least := max(strings.Count(string(text), "- alert:"), 1); len(links) < least {
			t.Errorf("%s: %d links to documents: there should be %d at least", name, len(links), least)
		}
		for _, l := range links {
			if err := checkLink(all, "docs/README.md", l[1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestLineLength(t *testing.T) {
	all := documents(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, line := range all[name].long {
			t.Errorf("%s:%d: more than %d characters in a line", name, line, maxLine)
		}
	}
}

// isChecked says whether a block is Go that must compile.
func isChecked(b block) bool {
	words := strings.Fields(b.info)
	return len(words) > 0 && words[0] == "go" && !slices.Contains(words[1:], "nocheck")
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

// A checker type-checks blocks against compiled packages.
type checker struct {
	fset   *token.FileSet
	export map[string]string // import path to the file with its types
	types  types.Importer
}

// newChecker compiles the packages that the blocks, which are those of one module, can import.
func newChecker(t *testing.T, module string, blocks []block) *checker {
	t.Helper()
	c := &checker{fset: token.NewFileSet(), export: map[string]string{}}
	paths := map[string]bool{}
	for _, path := range fragmentImports {
		paths[path] = true
	}
	for _, b := range blocks {
		f, _ := parser.ParseFile(token.NewFileSet(), b.file, asFile(b), parser.ImportsOnly)
		if f == nil {
			continue
		}
		for _, spec := range f.Imports {
			if path, err := strconv.Unquote(spec.Path.Value); err == nil && path != "C" && path != "unsafe" {
				paths[path] = true
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", append(
		[]string{"list", raceFlag, "-e", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"},
		slices.Sorted(maps.Keys(paths))...)...)
	cmd.Dir = filepath.Join(root, module)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	for s := range strings.Lines(string(out)) {
		if path, file, _ := strings.Cut(strings.TrimSpace(s), "\t"); file != "" {
			c.export[path] = file
		}
	}
	if c.export[library] == "" {
		t.Fatalf("package redlock does not compile\n%s", stderr.Bytes())
	}
	c.types = importer.ForCompiler(c.fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := c.export[path]
		if !ok {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(file)
	})
	return c
}

// check compiles one block and returns its errors, with file and line.
func (c *checker) check(b block) []error {
	if isFile(b) {
		return c.checkFile(b)
	}
	return c.checkFragment(b)
}

// isFile says whether a block has a package clause.
func isFile(b block) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", b.text, parser.PackageClauseOnly)
	return err == nil
}

// lineOf makes what follows it count as the lines of the block.
func lineOf(b block) string { return fmt.Sprintf("//line %s:%d\n", b.file, b.line) }

// asFile makes a file of a block that may lack a package clause.
func asFile(b block) string {
	if isFile(b) {
		return lineOf(b) + b.text
	}
	return "package snippet\n" + lineOf(b) + b.text
}

func (c *checker) parse(src string) (*ast.File, error) {
	return parser.ParseFile(c.fset, "", src, parser.SkipObjectResolution)
}

func (c *checker) checkFile(b block) []error {
	f, err := c.parse(asFile(b))
	if err != nil {
		return []error{err}
	}
	errs := c.typeCheck(func(types.Error) bool { return true }, f)
	if f.Name.Name == "main" && !declared(f)["main"] {
		errs = append(errs, fmt.Errorf("%s:%d: package main has no func main", b.file, b.line))
	}
	return errs
}

func (c *checker) checkFragment(b block) []error {
	f, err := c.parse(asFile(b))
	if err != nil {
		var stmtErr error
		if f, stmtErr = c.parseStatements(b); stmtErr != nil {
			// Of the two errors, the one that comes later knows more.
			if startsDeclaration(b.text) {
				return []error{err}
			}
			return []error{stmtErr}
		}
	}
	addImports(f)
	names, err := c.parse(namesFile(declared(f)))
	if err != nil {
		return []error{err}
	}
	addImports(names)
	// Left unused, a variable or an import is a soft error.
	return c.typeCheck(func(e types.Error) bool { return !e.Soft }, f, names)
}

// parseStatements makes a function of a block.
func (c *checker) parseStatements(b block) (*ast.File, error) {
	wrap := func(results int) string {
		types := strings.TrimSuffix(strings.Repeat("any, ", results), ", ")
		// The panic is on a line of its own: the block may end with a comment.
		return fmt.Sprintf("package snippet\nfunc _() (%s) {\n%s%s\npanic(0)\n}\n", types, lineOf(b), b.text)
	}
	f, err := c.parse(wrap(0))
	if err != nil {
		return nil, err
	}
	if n := results(f); n > 0 {
		return c.parse(wrap(n))
	}
	return f, nil
}

// results returns how many results the return statements of a file have, at
// most, leaving out function literals.
func results(f *ast.File) int {
	most := 0
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			most = max(most, len(n.Results))
		}
		return true
	})
	return most
}

// startsDeclaration says whether a block begins as top-level Go does.
func startsDeclaration(text string) bool {
	for s := range strings.Lines(text) {
		if s = strings.TrimSpace(s); s == "" || strings.HasPrefix(s, "//") {
			continue
		}
		for _, k := range []string{"import ", "import(", "type ", "func "} {
			if strings.HasPrefix(s, k) {
				return true
			}
		}
		return false
	}
	return false
}

// declared returns the names that a file declares at its top level.
func declared(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names[spec.Name.Name] = true
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	return names
}

// namesFile is a file that declares fragmentNames, but not those given.
func namesFile(but map[string]bool) string {
	var s strings.Builder
	s.WriteString("package snippet\n")
	for _, name := range slices.Sorted(maps.Keys(fragmentNames)) {
		if !but[name] {
			fmt.Fprintln(&s, fragmentNames[name])
		}
	}
	return s.String()
}

// addImports imports the packages of fragmentImports that a file seems to use, if it has no
// imports of its own.
func addImports(f *ast.File) {
	if len(f.Imports) > 0 {
		return
	}
	have := declared(f)
	var specs []ast.Spec
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || have[id.Name] || fragmentImports[id.Name] == "" {
			return true
		}
		have[id.Name] = true
		specs = append(specs, &ast.ImportSpec{
			Path: &ast.BasicLit{ValuePos: f.Name.Pos(), Kind: token.STRING, Value: strconv.Quote(fragmentImports[id.Name])},
		})
		return true
	})
	if len(specs) > 0 {
		f.Decls = append([]ast.Decl{&ast.GenDecl{TokPos: f.Name.Pos(), Tok: token.IMPORT, Specs: specs}}, f.Decls...)
	}
}

// typeCheck checks the files of one package and returns the errors to report.
func (c *checker) typeCheck(report func(types.Error) bool, files ...*ast.File) []error {
	var errs []error
	conf := types.Config{
		Importer: c.types,
		Sizes:    types.SizesFor("gc", runtime.GOARCH),
		Error: func(err error) {
			var e types.Error
			if !errors.As(err, &e) || report(e) {
				errs = append(errs, err)
			}
		},
	}
	_, _ = conf.Check("snippet", c.fset, files, nil) // its error went to conf.Error
	return errs
}
