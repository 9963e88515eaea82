package released

import (
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// Every exported name of redsync's packages is in the drop-in's, with its type, but for where a package is.
func TestEveryNameOfRedsyncIsHere(t *testing.T) {
	t.Parallel()
	const theirs, ours = "github.com/go-redsync/redsync/v4", "github.com/seed6c881748/redlock/integrations/redsync"
	packages := map[string][]string{
		"":       {"New", "Mutex.LockContext", "Option.Apply", "ErrTaken.Nodes", "ErrFailed", "DelayFunc", "WithValue"}, // That they are found at all.
		"/redis": {"Pool", "NewScript"}, "/redis/redigo": {"NewPool"}, "/redis/goredis/v8": {"NewPool"}, "/redis/goredis/v9": {"NewPool"},
	}
	for path, known := range packages {
		load := testkit.Importer(t, ".", theirs+path, ours+path)
		here, there := names(t, load, ours+path), names(t, load, theirs+path)
		for _, name := range known {
			require.Contains(t, there, name)
		}
		t.Logf("%d names in %s", len(there), theirs+path)
		for name, is := range there {
			// Of its parameters, the drop-in leaves two without a name.
			assert.Equal(t, strings.NewReplacer(theirs, ours, "(b bool)", "(bool)").Replace(is), here[name], name)
		}
	}
}

// names are what a package exports, with its types.
func names(t *testing.T, load types.Importer, path string) map[string]string {
	t.Helper()
	pkg, err := load.Import(path)
	require.NoError(t, err)
	all := map[string]string{}
	add := func(name string, o types.Object, of types.Type) {
		if o.Exported() {
			all[name] = types.TypeString(of, func(p *types.Package) string {
				if p == pkg {
					return ""
				}
				return p.Path()
			})
		}
	}
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		add(name, o, o.Type())
		if _, ok := o.(*types.TypeName); !ok || !o.Exported() {
			continue
		}
		receiver := o.Type()
		switch u := o.Type().Underlying().(type) {
		case *types.Interface:
		case *types.Struct:
			for f := range u.Fields() {
				add(name+"."+f.Name(), f, f.Type())
			}
			receiver = types.NewPointer(receiver)
		default:
			add(name, o, u)
		}
		for m := range types.NewMethodSet(receiver).Methods() {
			add(name+"."+m.Obj().Name(), m.Obj(), m.Obj().Type())
		}
	}
	return all
}
