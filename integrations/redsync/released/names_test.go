package released

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that uses every exported name of redsync's root package, with its type, passes go vet through the drop-in.
// Only New takes another argument.
func TestEveryNameOfRedsyncIsHere(t *testing.T) {
	t.Parallel()
	names, program := everyName(t, moduleDir(t, "github.com/go-redsync/redsync/v4"))
	for _, name := range []string{"New", "Mutex.LockContext", "Option.Apply", "ErrTaken.Nodes", "ErrFailed", "DelayFunc", "WithValue"} {
		require.Contains(t, names, name) // That they are found at all.
	}
	t.Logf("%d names", len(names))
	out, err := vet(t, program)
	require.NoError(t, err, out)

	for _, name := range []string{"redsync.WithTries", "(*redsync.Mutex).TryLock", "redsync.ErrNodeTaken{}.Node", "redsync.ErrExtendFailed"} {
		require.Contains(t, program, name)
		out, err := vet(t, strings.Replace(program, name, name+"X", 1))
		require.Error(t, err, "a name that is missing is not seen: %s", name)
		require.Contains(t, out, "undefined")
	}
}

// vet runs go vet for a program.
func vet(t *testing.T, program string) (string, error) {
	t.Helper()
	c := newCopy(t, "example.com/program")
	c.write("main.go", program)
	c.require("github.com/seed6c881748/redlock/integrations/redsync", "../")
	cmd := exec.CommandContext(t.Context(), "go", "vet", "-mod=mod", ".")
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// everyName returns the exported names of the package in a folder, and a program that uses each of them.
func everyName(t *testing.T, dir string) (names []string, program string) {
	t.Helper()
	set := token.NewFileSet()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	p := &user{set: set, types: map[string]bool{}}
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, 0)
		require.NoError(t, err)
		parsed = append(parsed, f)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for _, s := range g.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok {
						p.types[ts.Name.Name] = true
					}
				}
			}
		}
	}
	require.NotEmpty(t, parsed, fs.ErrNotExist)
	for _, f := range parsed {
		for _, d := range f.Decls {
			p.use(d)
		}
	}
	return p.names, p.program()
}

// A user writes the uses of names.
type user struct {
	set   *token.FileSet
	types map[string]bool
	names []string
	body  strings.Builder
}

func (p *user) program() string {
	imports := []string{"github.com/seed6c881748/redlock/integrations/redsync"}
	for path, qualifier := range map[string]string{
		"context": `\bcontext\.`, "time": `\btime\.`, "github.com/seed6c881748/redlock/redlock": `\bredlock\.`,
	} {
		if regexp.MustCompile(qualifier).MatchString(p.body.String()) {
			imports = append(imports, path)
		}
	}
	var b strings.Builder
	for _, path := range imports {
		fmt.Fprintf(&b, "import %q\n", path)
	}
	return fmt.Sprintf("package main\n\n%s\n%s\nfunc main() {}\n", b.String(), p.body.String())
}

func (p *user) add(name, format string, args ...any) {
	p.names = append(p.names, name)
	fmt.Fprintf(&p.body, "var _ "+format+"\n", args...)
}

func (p *user) use(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		p.useFunc(d)
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				p.useType(s)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						p.add(name.Name, "= redsync.%s", name.Name)
					}
				}
			}
		}
	}
}

func (p *user) useFunc(d *ast.FuncDecl) {
	switch name := d.Name.Name; {
	case !d.Name.IsExported():
	case name == "New" && d.Recv == nil:
		p.add(name, "func(*redlock.Redlock) *redsync.Redsync = redsync.New")
	case d.Recv == nil:
		p.add(name, "%s = redsync.%s", p.text(d.Type), name)
	default:
		receiver := d.Recv.List[0].Type
		base := receiver
		if star, ok := base.(*ast.StarExpr); ok {
			base = star.X
		}
		if of := base.(*ast.Ident); of.IsExported() {
			on := p.text(receiver)
			p.add(of.Name+"."+name, "%s = (%s).%s", p.method(d.Type, on), on, name)
		}
	}
}

// method is the type of a method's expression.
func (p *user) method(of ast.Expr, on string) string {
	return strings.Replace(p.text(unnamed(of.(*ast.FuncType))), "func(", "func("+on+", ", 1)
}

// unnamed is a signature without the names of its parameters, which the receiver has not.
func unnamed(f *ast.FuncType) *ast.FuncType {
	params := &ast.FieldList{}
	for _, field := range f.Params.List {
		for range max(len(field.Names), 1) {
			params.List = append(params.List, &ast.Field{Type: field.Type})
		}
	}
	return &ast.FuncType{Params: params, Results: f.Results}
}

func (p *user) useType(s *ast.TypeSpec) {
	name := s.Name.Name
	if !s.Name.IsExported() {
		return
	}
	switch of := s.Type.(type) {
	case *ast.StructType:
		p.add(name, "redsync.%s", name)
		for _, f := range of.Fields.List {
			for _, field := range f.Names {
				if field.IsExported() {
					p.add(name+"."+field.Name, "%s = redsync.%s{}.%s", p.text(f.Type), name, field.Name)
				}
			}
		}
	case *ast.InterfaceType:
		p.add(name, "redsync.%s", name)
		for _, m := range of.Methods.List {
			for _, method := range m.Names {
				p.add(name+"."+method.Name, "%s = redsync.%s.%s", p.method(m.Type, "redsync."+name), name, method.Name)
			}
		}
	default:
		p.add(name, "redsync.%s = (%s)(nil)", name, p.text(s.Type))
	}
}

// text is a type as another package writes it.
func (p *user) text(of ast.Expr) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, p.set, of) // A buffer takes everything.
	return regexp.MustCompile(`\*?\b[A-Z]\w*`).ReplaceAllStringFunc(b.String(), func(word string) string {
		name := strings.TrimPrefix(word, "*")
		if !p.types[name] {
			return word
		}
		return strings.TrimSuffix(word, name) + "redsync." + name
	})
}
