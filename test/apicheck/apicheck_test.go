// Package apicheck compares what the library exports with a listing that is part of the
// repository: api.txt in the folder of each package. So every change of the API is seen in
// review, and none is made by accident. "make api" writes the listings anew.
package apicheck

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	// Go's test cache must know that the result depends on them.
	_ "github.com/seed6c881748/redlock/redlock"
	_ "github.com/seed6c881748/redlock/redlock/redlockcheck"
	_ "github.com/seed6c881748/redlock/redlock/redlockhttp"
	_ "github.com/seed6c881748/redlock/redlock/redlocktest"
	_ "github.com/seed6c881748/redlock/redlock/semaphore"
)

var update = flag.Bool("update", false, "write the listings")

const (
	root   = "../.."
	module = "github.com/seed6c881748/redlock"
	header = "# What package %s exports. A test compares it with the code; \"make api\" writes it.\n"
)

// folders are those of the packages that users import.
var folders = []string{"redlock", "redlock/redlockcheck", "redlock/redlockhttp", "redlock/redlocktest", "redlock/semaphore"}

func TestAPI(t *testing.T) {
	load := loader(t)
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			pkg, err := load.Import(module + "/" + folder)
			if err != nil {
				t.Fatal(err)
			}
			lines := list(pkg)
			for _, l := range lines {
				if strings.Contains(l, module+"/internal/") {
					t.Errorf("users cannot import what this names: %s", l)
				}
			}
			file := folder + "/api.txt"
			path := filepath.Join(root, filepath.FromSlash(file))
			text := fmt.Sprintf(header, pkg.Name()) + strings.Join(lines, "\n") + "\n"
			if *update {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := compare(t, path, text); len(d) > 0 {
				t.Errorf("%s is not what package %s exports:\n\n\t%s\n\n"+
					"If that is meant, run \"make api\", commit %s, and say in CHANGELOG.md what has changed.",
					file, pkg.Name(), strings.Join(d, "\n\t"), file)
			}
		})
	}
}

// compare returns how text differs from the listing in a file.
func compare(t *testing.T, path, text string) []string {
	t.Helper()
	listed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(s string) []string { return strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n") }
	return diff(lines(string(listed)), lines(text))
}

// loader returns an importer of the packages as they are now, with what they depend on.
func loader(t *testing.T) types.Importer {
	t.Helper()
	args := []string{"list", raceFlag, "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	export := map[string]string{}
	for s := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(s), "\t")
		export[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})
}

// The check itself is checked: nothing that is exported is missing from a listing, and
// nothing else is in it.
func TestList(t *testing.T) {
	want := []string{
		`const A untyped int = 1`,
		`const B Kind = "b"`,
		`const F untyped float = 0.01`,
		`var V error`,
		`func Generic[T any](x T, more ...int) (y T, err error)`,
		`type Alias = Kind`,
		`type Empty struct (with unexported parts)`,
		`field Empty.X int`,
		`method (*Empty) Promoted()`,
		`type Func func(k Kind) error`,
		`type Generics[T any] struct`,
		`field Generics[T any].X T`,
		`type Kind string`,
		`method (Kind) String() string`,
		`type Opaque func (with unexported parts)`,
		`type Open interface`,
		`method Open.Do(k Kind) (n int)`,
		`method Open.Error() string`,
		`type Record struct`,
		`field Record.Z int "json:\"z\""`,
		`field Record.Kind Kind (embedded)`,
		`method (*Record) Set(z int)`,
		`method (Record) String() string`,
		`type Sealed interface (with unexported parts)`,
	}
	if d := diff(want, list(typeCheck(t, source))); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}

const source = `package p

const (
	A = 1
	F = 0.01
	B Kind = "b"
	c = 2
)

var V, w error

func Generic[T any](x T, more ...int) (y T, err error) { return x, nil }

func hidden() {}

type Alias = Kind

type Empty struct{ inner }

type inner struct{ X int }

func (*inner) Promoted() {}

func (*inner) hidden() {}

type Func func(k Kind) error

type Generics[T any] struct{ X T }

type Kind string

func (k Kind) String() string { return string(k) }

type Opaque func(*inner)

type Open interface {
	error
	Do(k Kind) (n int)
}

type Record struct {
	Z int ` + "`json:\"z\"`" + `
	Kind
}

func (r *Record) Set(z int) {}

type Sealed interface{ hidden() }
`

func typeCheck(t *testing.T, source string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("p", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

func TestDiff(t *testing.T) {
	before := []string{"a", "b", "c"}
	for _, c := range []struct{ after, want []string }{
		{[]string{"a", "b", "c"}, nil},
		{[]string{"a", "x", "c"}, []string{"- b", "+ x"}},
		{[]string{"a", "b", "c", "d"}, []string{"+ d"}},
		{[]string{"b", "a", "c"}, []string{"the same lines in another order"}},
	} {
		if d := diff(before, c.after); !slices.Equal(d, c.want) {
			t.Errorf("%q: %q, want %q", c.after, d, c.want)
		}
	}
}
