package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

const (
	repo    = "../../.."
	version = "v0.1.0"
)

// No two tests run at the same time: what they do is to compile, and the go command uses all cores by itself.

// consumer is a module outside the repository. It gets the library from a proxy.
type consumer struct {
	t   *testing.T
	dir string
	env []string
}

// newFolder makes an empty folder, with a module cache of its own that is empty, too.
func newFolder(t *testing.T, proxy string) consumer {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "job") // What a test puts beside it is thrown away as well.
	require.NoError(t, os.Mkdir(dir, 0o700))
	return consumer{t: t, dir: dir, env: proxyEnv(t, proxy)}
}

// newConsumer makes a module with nothing in it.
func newConsumer(t *testing.T, proxy string) consumer {
	t.Helper()
	c := newFolder(t, proxy)
	c.write("go.mod", "module example.com/consumer\n\ngo 1.25.0\n")
	return c
}

// proxyEnv is the environment of go commands that use a proxy in a folder, and for other modules
// what has been downloaded before, or else the usual proxy. What they download is thrown
// away with the test: the version may have other contents tomorrow. With -trimpath, what was compiled
// from another module cache is not compiled again.
func proxyEnv(t *testing.T, proxy string) []string {
	t.Helper()
	return append(os.Environ(),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+goEnv(t, "GOMODCACHE")+"/cache/download,"+goEnv(t, "GOPROXY"),
		"GONOSUMDB="+library+","+library+"/*",
		"GOMODCACHE="+t.TempDir(), "GOFLAGS="+goEnv(t, "GOFLAGS")+" -modcacherw -trimpath", "GOWORK=off",
	)
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}

func (c consumer) write(name, text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

// run runs a command in the module, and returns what it has printed.
func (c consumer) run(name string, args ...string) string {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	require.NoError(c.t, err, "%s: %s", cmd, out)
	return string(out)
}

var (
	programRE  = regexp.MustCompile("(?s)```go\n(package main\n.*?)```")
	commandsRE = regexp.MustCompile("(?s)```\n(go mod init .*?)```")
	replaceRE  = regexp.MustCompile(`(?m)^go mod edit -replace ` + library + `=(\S+)$`)
	getRE      = regexp.MustCompile(`(?m)^//\s(go get \S+)`)
	moduleRE   = regexp.MustCompile(`(?m)^\tdep\t(\S+)`)
)

// committed returns a file of the commit.
func committed(t *testing.T, name string) string {
	t.Helper()
	text, err := exec.Command("git", "-C", repo, "cat-file", "blob", "HEAD:"+name).Output()
	require.NoError(t, err)
	return string(text)
}

// readmeProgram returns the first program of the committed README.
func readmeProgram(t *testing.T) string {
	t.Helper()
	found := programRE.FindStringSubmatch(committed(t, "README.md"))
	require.NotNil(t, found, "README.md has a program")
	return found[1]
}

// newProxy has the committed library in it.
func newProxy(t *testing.T) string {
	t.Helper()
	proxy := t.TempDir()
	require.NoError(t, writeProxy(repo, "HEAD", version, proxy))
	return proxy
}

// A newcomer's folder and module cache are empty, and all that is typed is what the README shows. Until the first
// release that names a clone beside the folder, and no proxy has the module.
func TestTheCommandsOfTheREADMERunItsProgram(t *testing.T) {
	servers := testcluster.RunServers(t, 3)
	found := commandsRE.FindStringSubmatch(committed(t, "README.md"))
	require.NotNil(t, found, "it has commands")
	c := newFolder(t, t.TempDir())
	if clone := replaceRE.FindStringSubmatch(found[1]); clone != nil {
		c.run("git", "clone", "-q", absolute(t, repo), clone[1])
	} else {
		c.env = proxyEnv(t, newProxy(t))
	}
	program := readmeProgram(t)
	for i, addr := range servers.Addrs() {
		program = strings.ReplaceAll(program, fmt.Sprintf("127.0.0.1:700%d", i+1), addr)
	}
	c.write("main.go", program)
	out := ""
	for command := range strings.Lines(found[1]) {
		words := strings.Fields(command)
		out = c.run(words[0], words[1:]...)
	}
	assert.Contains(t, out, "held for")
}

// Tests with nodes in memory take one more module, which the library itself does without.
func TestATestBuildsAfterGoGetOfRedlocktest(t *testing.T) {
	found := getRE.FindStringSubmatch(committed(t, "redlock/redlocktest/doc.go"))
	require.NotNil(t, found, "its documentation has the command")
	c := newConsumer(t, newProxy(t))
	c.write("a_test.go", `package a

import (
	"testing"

	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

func TestIt(t *testing.T) { redlocktest.New(t, 3).AssertFree() }
`)
	c.run("go", "get", library)
	words := strings.Fields(found[1])
	c.run(words[0], words[1:]...)
	c.run("go", "test", "-timeout=0", ".") // This test's own ends it.
}

// What README.md says first builds outside of the repository, from what a proxy has of the commit, and brings in no module
// but those that it says.
func TestAConsumerGetsTheModulesThatTheREADMESays(t *testing.T) {
	c := newConsumer(t, newProxy(t))
	c.write("main.go", readmeProgram(t))
	c.run("go", "get", library)
	c.run("go", "build", ".") // Who gets the module by its own name, as most do with Go, has all that the package needs.
	c.run("go", "mod", "tidy")
	c.run("go", "vet", ".")
	c.run("go", "build", "-o", "program.exe", ".")
	var linked []string
	for _, found := range moduleRE.FindAllStringSubmatch(c.run("go", "version", "-m", "program.exe"), -1) {
		linked = append(linked, found[1])
	}
	assert.ElementsMatch(t, []string{library, "github.com/gomodule/redigo", "golang.org/x/sync"}, linked)

	written, err := os.ReadFile(filepath.Join(repo, "docs", "generated", "footprint.md"))
	require.NoError(t, err)
	assert.Contains(t, string(written), "```\n"+c.run("go", "list", "-m", "all")+"```", "make footprint writes it anew")
}
