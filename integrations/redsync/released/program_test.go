package released

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
)

// The program of docs/migrating.md does the same before and after the change that is shown there.
func TestTheProgramOfTheDocuments(t *testing.T) {
	t.Parallel()
	before, after := read(t, "testdata", "program", "before.go"), read(t, "testdata", "program", "after.go")
	addrs := strings.Join(testcluster.RunServers(t, 3).Addrs(), " ")
	said := runProgram(t, before, addrs)
	require.Contains(t, said, "reported\n")
	require.Equal(t, said, runProgram(t, after, addrs))

	document := read(t, "..", "..", "..", "docs", "migrating.md")
	shown := regexp.MustCompile("(?s)```diff\n(.*?)```").FindStringSubmatch(document)
	require.NotNil(t, shown, "docs/migrating.md shows no diff")
	was, is := sides(shown[1])
	require.Equal(t, without(before, after), was)
	require.Equal(t, without(after, before), is)
}

func runProgram(t *testing.T, program, addrs string) string {
	t.Helper()
	c := newCopy(t, "example.com/program")
	c.require("github.com/seed6c881748/redlock/integrations/redsync", "../")
	c.write("main.go", program)
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "REDIS_ADDRS="+addrs)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// sides are the lines that a diff removes and adds, sorted: what stands where, the program shows.
func sides(diff string) (removed, added []string) {
	for line := range strings.Lines(diff) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case strings.HasPrefix(line, "-"):
			removed = append(removed, line[1:])
		case strings.HasPrefix(line, "+"):
			added = append(added, line[1:])
		}
	}
	slices.Sort(removed)
	slices.Sort(added)
	return removed, added
}

// without returns the lines of a text that are not in another, as often as they are missing there, sorted.
func without(text, other string) (lines []string) {
	left := strings.Split(other, "\n")
	for _, line := range strings.Split(text, "\n") {
		if i := slices.Index(left, line); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}
