package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// What a server makes of an open class is not what somebody means: list 'a[' would say that there is no lock.
func TestListRefusesAMalformedPattern(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "127.0.0.1:1")
	for pattern, want := range map[string]string{
		"a[": `PATTERN "a[": the [ at byte 2 is not closed`, "[ab": "byte 1 is not closed", "a[^": "not closed", "[^ab": "not closed",
		"[]": "matches nothing", "x[]a]": "the [] at byte 2 matches nothing", `[\]`: "not closed", `[a\`: "not closed", "[a-]": "not closed",
		"[a][": "byte 4 is not closed", `a\`: "ends with a backslash", "": "empty PATTERN",
	} {
		code, _, errOut := execTool(t, nil, "list", pattern)
		assert.Equal(t, exitUsage, code, "%q", pattern)
		assert.Contains(t, errOut, want, "%q", pattern)
	}
	for _, pattern := range []string{
		"*", "a", "a]", "[a]", "[^a]", "[^]", "[a-z]", "[a-]]", "[-a]", `[\]]`, `[\\]`, `\[`, `a\\`, "?[a][b]*", "{a,b}", "[[]", "ä[ö]",
	} {
		require.NoError(t, checkGlob(pattern), "%q", pattern)
	}
}

// The check reads patterns as servers do: one that it lets pass matches what is in its class, and one that it
// refuses for its range does not match that.
func TestServersReadPatternsAsTheCheckDoes(t *testing.T) {
	c := testcluster.RunServers(t, 1)
	for _, name := range []string{"xa", "x-", "x]", `x\`, "x["} {
		require.NoError(t, c.Nodes[0].Set(name, tokens.New(), 0))
	}
	for pattern, want := range map[string]string{
		"x[a-]]": "x],xa", "x[-a]": "x-,xa", `x[\]]`: "x]", `x[\\]`: `x\`, "x[[]": "x[", "x[^]": `x-,x[,x\,x],xa`, "x[_-b]": "xa", "x[b-_]": "xa",
	} {
		code, out, errOut := execTool(t, c, append([]string{"list", "--json", pattern}, slow...)...)
		require.Equal(t, exitOK, code, errOut)
		var found []string
		for line := range strings.Lines(out) {
			found = append(found, decode[viewJSON](t, line).Resource)
		}
		slices.Sort(found)
		assert.Equal(t, want, strings.Join(found, ","), "%q", pattern)
	}
}
