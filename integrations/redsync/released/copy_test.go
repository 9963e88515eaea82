package released

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder is a module that is compiled elsewhere, with the requirements of this one.
type folder struct {
	t   *testing.T
	dir string
}

func newCopy(t *testing.T, module string) folder {
	t.Helper()
	c := folder{t, t.TempDir()}
	c.write("go.mod", edit(t, edit(t, read(t, "go.mod"), `(?m)^module .*`, "module "+module), `(?s)\nreplace \(.*`, ""))
	c.write("go.sum", read(t, "go.sum"))
	c.require("github.com/seed6c881748/redlock", "../../..")
	return c
}

// require has a module be another folder's.
func (c folder) require(module, from string) {
	c.t.Helper()
	dir := from
	if !strings.HasPrefix(from, "./") { // In the copy.
		abs, err := filepath.Abs(from)
		require.NoError(c.t, err)
		dir = abs
	}
	c.write("go.mod", read(c.t, c.dir, "go.mod")+"\nreplace "+module+" => "+dir+"\n")
}

// drop removes the requirement of a module.
func (c folder) drop(module string) {
	c.t.Helper()
	c.write("go.mod", edit(c.t, read(c.t, c.dir, "go.mod"), `(?m)^.*`+regexp.QuoteMeta(module)+` v.*\n`, ""))
}

func (c folder) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(c.t, os.WriteFile(path, []byte(text), 0o600))
}

// copyGo copies a package without its tests, changed by a function.
func (c folder) copyGo(dir, from string, change func(text string) string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.go"))
	require.NoError(c.t, err)
	require.NotEmpty(c.t, files, from)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := read(c.t, file)
		if change != nil {
			text = change(text)
		}
		c.write(filepath.Join(dir, filepath.Base(file)), text)
	}
}

// run runs the go command there, and returns what it says.
func (c folder) run(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), "go", args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

// edit replaces all places, of which there must be one.
func edit(t *testing.T, text, old, replacement string) string {
	t.Helper()
	pattern := regexp.MustCompile(old)
	require.Regexp(t, pattern, text, "what is edited has changed")
	return pattern.ReplaceAllString(text, replacement)
}

func moduleDir(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}
