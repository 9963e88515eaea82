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

// statements is a program of a block of statements, and has the names that they may use. Real servers stand in for its
// nodes.
const statements = `
var (
	ctx = context.Background()
	nodes = []redlock.Node{redlock.NewNode("10.0.0.1:6379"), redlock.NewNode("10.0.0.2:6379"), redlock.NewNode("10.0.0.3:6379")}
	r, _ = redlock.New(nodes)
)

func work(context.Context) error { return nil }

func main() {
	if err := block(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func block() error {
%s
	return nil
}
`

var (
	declaresRE = regexp.MustCompile(`^(?://.*\n)*(?:import|func|type) ?\(?`)
	commentRE  = regexp.MustCompile(`(?m)(?:^|\s)//.*`)
)

// programOf makes a program of a block. If it only declares, there is nothing to run.
func programOf(b block) (source string, runs bool) {
	text := fmt.Sprintf("//line %s:%d\n%s", b.file, b.line, b.text)
	switch {
	case strings.Contains(b.text, "package main\n"):
		return text, true
	case !declaresRE.MatchString(b.text):
		text, runs = fmt.Sprintf(statements, text), true
	default:
		text += "\nfunc main() {}\n"
	}
	source = "package main\n"
	code := commentRE.ReplaceAllString(text, "")
	for name, from := range imports {
		if !strings.Contains(b.text, "import (") && regexp.MustCompile(`\b`+name+`\.`).MatchString(code) {
			source += fmt.Sprintf("import %q\n", from)
		}
	}
	return source + text, runs
}

// Each program, and each block of statements, ends with the status 0, unless the block is marked "mayfail". What only
// declares compiles, as do the blocks of integrations: what they plug into need not be here.
func TestSnippetsRun(t *testing.T) {
	c := testcluster.RunServers(t, 3)
	all := pages(t)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, b := range all[name].blocks {
			if words := strings.Fields(b.info); len(words) == 0 || words[0] != "go" || seen[b.text] {
				continue // The same is in the README of the other language.
			}
			seen[b.text] = true
			t.Run(fmt.Sprintf("%s:%d", b.file, b.line), func(t *testing.T) {
				source, runs := programOf(b)
				module := "."
				if strings.HasPrefix(b.file, "integrations/") {
					module, runs = path.Dir(b.file), false
				}
				program := compile(t, module, source, c)
				if !runs {
					return
				}
				out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
				if !strings.Contains(b.info, "mayfail") {
					require.NoError(t, err, "%s", out)
				}
				if b.file == "README.md" {
					assert.Contains(t, string(out), "held for ")
				}
			})
		}
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
