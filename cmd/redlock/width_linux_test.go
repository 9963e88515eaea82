package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// lines types a command of the tool, and returns what it has written to the terminal.
func (k *keyboard) lines(command string) []string {
	k.t.Helper()
	k.typeText(`echo be""gin; ` + command + `; echo e""nd` + "\n")
	k.see("begin\r\n")
	from := k.seen
	k.see("end\r\n")
	text := strings.TrimSuffix(k.screen.String()[from:k.seen], "end\r\n")
	return strings.Split(strings.TrimSuffix(text, "\r\n"), "\r\n")
}

// What is said fits into the terminal, breaks between words, and has its columns one below the other.
func TestTerminalWidth(t *testing.T) {
	t.Parallel()
	c := testcluster.RunServers(t, 3)
	names := []string{"short", strings.Repeat("reports/", 10) + "nightly", strings.Repeat("\u9501", 60)}
	for _, node := range c.Nodes {
		for _, name := range names {
			require.NoError(t, node.Set(name, tokens.WithLabel(tokens.New(), "a-machine-with-a-long-name.example.com/123456"), time.Minute))
		}
	}
	k := sitDown(t, c)
	nodes := " --node-timeout 5s --connect-timeout 20s "
	for _, width := range []string{"60", "80", "120"} {
		most := map[string]int{"60": 60, "80": 80, "120": 120}[width]
		k.lines("stty cols " + width)
		list := k.lines("$TOOL list" + nodes)
		require.Len(t, list, 1+len(names))
		for _, line := range list {
			assert.LessOrEqual(t, cells(line), most, line)
			before, _, found := strings.Cut(line, "partial")
			if strings.HasPrefix(line, "RESOURCE") {
				before, _, found = strings.Cut(line, "STATE")
			}
			require.True(t, found, line)
			assert.Equal(t, cells(list[0][:strings.Index(list[0], "STATE")]), cells(before), line)
		}
		assert.Equal(t, most >= 100, strings.Contains(list[0], "FENCE"))
		for _, command := range []string{"$TOOL help", "$TOOL help run", "$TOOL status short free" + nodes, "$TOOL status --permits 2 x" + nodes, "$TOOL check" + nodes} {
			text := strings.Join(k.lines(command), "\n")
			text, _, _ = strings.Cut(text, "\nEXAMPLES\n")
			for line := range strings.SplitSeq(text, "\n") {
				assert.LessOrEqual(t, cells(line), most, "%s: %s", command, line)
			}
		}
	}
	k.lines("stty cols 60")
	k.typeText("$TOOL watch" + nodes + "--interval 100ms short\n")
	k.see("\x1b[H")
	from := k.seen
	k.see("\x1b[J")
	for line := range strings.SplitSeq(k.screen.String()[from:k.seen], "\x1b[K") {
		assert.LessOrEqual(t, len(strings.Trim(line, "\r\n\x1b[J")), 60, line)
	}
	k.typeText(ctrlC)
	k.see("$ ")
	assert.Contains(t, strings.Join(k.lines("$TOOL list"+nodes+"| cat"), "\n"), names[1], "nothing is cut")
}
