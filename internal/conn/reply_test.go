package conn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAReplyLimitLetsRepliesPass(t *testing.T) {
	replies := []string{
		":1\r\n", "+OK\r\n", "-NOSCRIPT No matching script.\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"$5\r\na\r\nb*\r\n", "*2\r\n:-1\r\n$3\r\nabc\r\n", "*2\r\n*1\r\n$1\r\n*\r\n*0\r\n", ":-1\r\n",
		"$" + "100000\r\n" + strings.Repeat("$9", 50000) + "\r\n",
		"*60000\r\n" + strings.Repeat(":1\r\n", 60000),
	}
	stream := strings.Repeat(strings.Join(replies, ""), 7) // A chunk of 7 begins anywhere in one of them.
	for _, chunk := range []int{1, 2, 3, 7, 4096, len(stream)} {
		var g replyLimit
		for rest := stream; rest != ""; {
			n := min(chunk, len(rest))
			if err := g.follow([]byte(rest[:n])); err != nil { // Millions of require.NoError take long.
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		assert.Zero(t, g.todo)
		assert.Zero(t, g.kind)
	}
}

func TestAReplyLimitStopsWhatWouldExhaustTheProcess(t *testing.T) {
	for name, s := range map[string]string{
		"long string":         "$1099511627776\r\n",
		"longer than a word":  "$99999999999999999999999999999\r\n",
		"many values":         "*100000000000\r\n",
		"many values, nested": strings.Repeat("*30000\r\n", 3),
		"deep":                strings.Repeat("*1\r\n", maxReply),
		"long line":           "+" + strings.Repeat("x", maxReply),
		"many strings":        "*60000\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("x", 100)+"\r\n", 60000),
		"after others":        ":1\r\n*1\r\n:1\r\n$1099511627776\r\n",
	} {
		var g replyLimit
		require.ErrorIs(t, g.follow([]byte(s)), ErrLongReply, name)
	}
}
