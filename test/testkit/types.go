package testkit

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// Importer returns an importer of packages as they are now, which are named as for go list in a folder.
func Importer(t *testing.T, folder string, packages ...string) types.Importer {
	t.Helper()
	// With the race detector only if this test has it: so most of it is in the build cache.
	args := []string{"list", fmt.Sprint("-race=", testcluster.RaceEnabled), "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}
	cmd := exec.CommandContext(t.Context(), "go", append(args, packages...)...)
	cmd.Dir, cmd.Stderr = folder, t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	export := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		export[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(export[path])
	})
}
