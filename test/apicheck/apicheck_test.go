// Package apicheck compares what the library exports with a listing that is part of the
// repository: api.txt in the folder of each package. So every change of the API is seen in
// review, and none is made by accident. "make api" writes the listings anew.
package apicheck

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
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
	"github.com/seed6c881748/redlock/test/testkit"
)

var update = flag.Bool("update", false, "write the listings")

const (
	root   = "../.."
	module = "github.com/seed6c881748/redlock"
	header = "# What package %s exports. A test compares it with the code; \"make api\" writes it.\n"
)

// folders are those of the packages that users import.
var folders = []string{"redlock", "redlock/dial", "redlock/election", "redlock/redlockcheck", "redlock/redlockhttp", "redlock/redlocktest", "redlock/semaphore", "redlock/shared", "redlock/stored", "redlock/ticks"}

func TestAPI(t *testing.T) {
	load := testkit.Importer(t, root, "./redlock/...")
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			pkg, err := load.Import(module + "/" + folder)
			require.NoError(t, err)
			lines := list(pkg)
			for _, l := range lines {
				assert.NotContains(t, l, module+"/internal/", "users cannot import what this names")
			}
			file := folder + "/api.txt"
			path := filepath.Join(root, filepath.FromSlash(file))
			text := fmt.Sprintf(header, pkg.Name()) + strings.Join(lines, "\n") + "\n"
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
				return
			}
			listed, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, strings.ReplaceAll(string(listed), "\r\n", "\n"), text,
				"If that is meant, run \"make api\", commit %s, and say in CHANGELOG.md what has changed.", file)
		})
	}
}

// The check itself is checked: nothing that is exported is missing from a listing, and
// nothing else is in it.
func TestList(t *testing.T) {
	want := []string{
		`const A untyped int = 1`,
		`const B Kind = "b"`,
		`var V error`,
		`func Generic[T any](x T, more ...int) (y T, err error)`,
		`type Alias = Kind`,
		`type Empty struct (with unexported parts)`,
		`field Empty.X int`,
		`method (*Empty) Promoted()`,
		`type Func func(k Kind) error`,
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
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", source, 0)
	require.NoError(t, err)
	pkg, err := new(types.Config).Check("p", fset, []*ast.File{f}, nil)
	require.NoError(t, err)
	assert.Equal(t, want, list(pkg))
}

const source = `package p

const (
	A = 1
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
