package conn

import (
	"bufio"
	"bytes"
	"math"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// What is sent without redigo is what redigo would send.
func TestCommandIsWrittenAsRedigoDoes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]any{
		nil,
		{""},
		{"sha", 2, "a key", "é\r\n$5\r\n", []byte{0, 255}, 30_000, int64(1)},
		{0, -1, 9, 10, 99, 100, math.MaxInt, math.MinInt, int64(math.MaxInt64), int64(math.MinInt64)},
		{strings.Repeat("x", 9), strings.Repeat("x", 10), strings.Repeat("x", 100_000)},
		{true, false},
		{uint8(7), int32(-7), 1.5},
	} {
		require.Equal(t, redigoWrites(t, "EVALSHA", args), string(AppendCommand(nil, "EVALSHA", args)), "%v", args)
	}
}

func redigoWrites(t *testing.T, command string, args []any) string {
	t.Helper()
	near, far := net.Pipe()
	var got bytes.Buffer
	read := make(chan error)
	go func() {
		_, err := bufio.NewReader(far).WriteTo(&got)
		read <- err
	}()
	c := redis.NewConn(near, 0, 0)
	require.NoError(t, c.Send(command, args...))
	require.NoError(t, c.Flush())
	require.NoError(t, near.Close())
	require.NoError(t, <-read)
	return got.String()
}
