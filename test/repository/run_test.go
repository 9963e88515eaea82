package repository

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// imports are the packages that a block can use without an import.
var imports = map[string]string{
	"context":      "context",
	"errors":       "errors",
	"fmt":          "fmt",
	"log":          "log",
	"os":           "os",
	"redis":        "github.com/gomodule/redigo/redis",
	"redlock":      library,
	"redlockcheck": library + "/redlockcheck",
	"semaphore":    library + "/semaphore",
	"shared":       library + "/shared",
	"sql":          "database/sql",
	"time":         "time",
	"tls":          "crypto/tls",
	"x509":         "crypto/x509",
}

// statements is a program of all blocks of statements, each a function, and has the names that they may use. Real servers
// stand in for its nodes.
const statements = `
var (
	ctx = context.Background()
	nodes = []redlock.Node{redlock.NewNode("10.0.0.1:6379"), redlock.NewNode("10.0.0.2:6379"), redlock.NewNode("10.0.0.3:6379")}
	r, _ = redlock.New(nodes)
)

func work(context.Context) error { return nil }

func main() {
	if err := blocks[os.Args[1]](); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

var blocks = map[string]func() error{
%s}
`

var (
	declaresRE = regexp.MustCompile(`^(?://.*\n)*(?:package|import|func|type) ?\(?`)
	commentRE  = regexp.MustCompile(`(?m)(?:^|\s)//.*`)
)

// title is where a block is.
func (b block) title() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// source is the block with its place.
func (b block) source() string { return fmt.Sprintf("//line %s\n%s\n", b.title(), b.text) }

// withImports makes a file of declarations.
func withImports(name, text string) string {
	source := "package " + name + "\n"
	code := commentRE.ReplaceAllString(text, "")
	for name, from := range imports {
		if !strings.Contains(text, "import (") && regexp.MustCompile(`\b`+name+`\.`).MatchString(code) {
			source += fmt.Sprintf("import %q\n", from)
		}
	}
	return source + text
}

// Each program, and each block of statements, ends with the status 0, unless the block is marked "mayfail". What only
// declares compiles, as do the blocks of integrations: what they plug into need not be here. That is not linked.
func TestSnippetsRun(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	all := pages(t)
	seen := map[string]bool{}
	var together []block
	functions := ""
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, b := range all[name].blocks {
			if words := strings.Fields(b.info); len(words) == 0 || words[0] != "go" || seen[b.text] {
				continue // The same is in the README of the other language.
			}
			seen[b.text] = true
			if !declaresRE.MatchString(b.text) {
				together = append(together, b)
				functions += fmt.Sprintf("%q: func() error {\n%s\nreturn nil\n},\n", b.title(), b.source())
				continue
			}
			t.Run(b.title(), func(t *testing.T) {
				without := strings.Replace(b.source(), "package main\n", "\n", 1)
				switch of := path.Dir(b.file); {
				case strings.HasPrefix(of, "integrations/"):
					compile(t, of, withImports("snippet", without), c)
				case without != b.source():
					runBlock(t, b, compile(t, ".", b.source(), c))
				default:
					compile(t, ".", withImports("snippet", without), c)
				}
			})
		}
	}
	program := compile(t, ".", withImports("main", fmt.Sprintf(statements, functions)), c)
	for _, b := range together {
		t.Run(b.title(), func(t *testing.T) { runBlock(t, b, program) })
	}
}

func runBlock(t *testing.T, b block, program string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, b.title()).CombinedOutput()
	if !strings.Contains(b.info, "mayfail") {
		require.NoError(t, err, "%s", out)
	}
	if b.file == "README.md" {
		assert.Contains(t, string(out), "held for ")
	}
}

// compile compiles a program with the packages of a module.
func compile(t *testing.T, module, source string, c *testcluster.Cluster) (program string) {
	t.Helper()
	for i, addr := range c.Addrs() {
		for _, printed := range []string{"10.0.0.%d:6379", "127.0.0.1:700%d"} { // The second one in the READMEs.
			source = strings.ReplaceAll(source, fmt.Sprintf(printed, i+1), addr)
		}
	}
	dir := t.TempDir()
	program = filepath.Join(dir, "program.exe")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	// With the race detector only if this test has it: so most of it is in the build cache.
	build := exec.CommandContext(t.Context(), "go", "build", fmt.Sprint("-race=", testcluster.RaceEnabled),
		"-ldflags=-s -w", "-o", program, filepath.Join(dir, "main.go"))
	build.Dir = filepath.Join(root, module)
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
