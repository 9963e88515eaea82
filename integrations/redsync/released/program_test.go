package released

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The program of docs/migrating.md does the same before and after the change that is shown there.
func TestTheProgramOfTheDocuments(t *testing.T) {
	t.Parallel()
	document := read(t, "..", "..", "..", "docs", "migrating.md")
	shown := regexp.MustCompile("(?s)```diff\n(.*?)```").FindStringSubmatch(document)
	require.NotNil(t, shown, "docs/migrating.md shows no diff")
	was, is := sides(shown[1])
	before := read(t, "testdata", "program", "before.go")
	require.Equal(t, 1, strings.Count(before, was), "the program has not what is changed")

	addrs := strings.Join(testcluster.RunServers(t, 3).Addrs(), " ")
	said := runProgram(t, before, addrs)
	require.Contains(t, said, "reported\n")
	require.Equal(t, said, runProgram(t, strings.Replace(before, was, is, 1), addrs))
}

func runProgram(t *testing.T, program, addrs string) string {
	t.Helper()
	c := newCopy(t, "example.com/program")
	c.require("github.com/seed6c881748/redlock/integrations/redsync", "../")
	c.require("github.com/seed6c881748/redlock/integrations/redsync/redis/goredis/v9", "../redis/goredis/v9")
	c.require("github.com/seed6c881748/redlock/integrations/goredis", "../../goredis")
	c.write("main.go", program)
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "REDIS_ADDRS="+addrs)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// sides are what a diff replaces, and what it puts there.
func sides(diff string) (was, is string) {
	for line := range strings.Lines(diff) {
		rest := strings.TrimLeft(line[:1], "-+ ") + line[1:]
		if !strings.HasPrefix(line, "+") {
			was += rest
		}
		if !strings.HasPrefix(line, "-") {
			is += rest
		}
	}
	return was, is
}
