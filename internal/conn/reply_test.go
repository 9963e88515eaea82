package conn

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// harmless are replies as servers give them.
var harmless = []string{
	":1\r\n", "+OK\r\n", "-NOSCRIPT No matching script.\r\n", "$0\r\n\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
	"$5\r\na\r\nb*\r\n", "*2\r\n:-1\r\n$3\r\nabc\r\n", "*2\r\n*1\r\n$1\r\n*\r\n*0\r\n", ":-1\r\n", ":123456\r\n", ":123456\r\n", ":-9223372036854775808\r\n",
	"*2\r\n-ERR nested\r\n$-1\r\n", "+" + strings.Repeat("y", 20000) + "\r\n", "$9\r\n*1\r\n:1\r\n.\r\n",
	"$" + "100000\r\n" + strings.Repeat("$9", 50000) + "\r\n",
	"$" + "2000000\r\n" + strings.Repeat("x", 2000000) + "\r\n",
	"*60000\r\n" + strings.Repeat(":1\r\n", 60000),
}

// readers read what comes in at once, a byte at a time, and in two halves.
var readers = map[string]func(io.Reader) io.Reader{
	"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
}

func TestAReplyReaderReadsWhatRedigoReads(t *testing.T) {
	stream := strings.Repeat(strings.Join(harmless, ""), 2)
	for name, chunked := range readers {
		r := replyReader{in: bufio.NewReader(chunked(strings.NewReader(stream)))}
		peer := redis.NewConn(&readConn{Reader: strings.NewReader(stream)}, 0, 0)
		for range 2 * len(harmless) {
			got, err := r.next()
			require.NoError(t, err, name)
			want, refused := peer.Receive()
			if refused != nil {
				want = refused
			}
			require.Equal(t, want, got, name)
		}
		_, err := r.next()
		require.ErrorIs(t, err, io.EOF)
	}
}

func TestAReplyReaderStopsWhatWouldExhaustTheProcess(t *testing.T) {
	for name, s := range map[string]string{
		"long string":         "$1099511627776\r\n",
		"longer than a word":  "$99999999999999999999999999999\r\n",
		"many values":         "*100000000000\r\n",
		"many values, nested": strings.Repeat("*30000\r\n", 3),
		"deep":                strings.Repeat("*1\r\n", maxReply),
		"long line":           "+" + strings.Repeat("x", maxReply),
		"many strings":        "*60000\r\n" + strings.Repeat("$100\r\n"+strings.Repeat("x", 100)+"\r\n", 60000),
		"after others":        ":1\r\n*1\r\n:1\r\n$1099511627776\r\n",
		"long nested string":  "*1\r\n$1048577\r\n" + strings.Repeat("x", maxReply),
	} {
		r := replyReader{in: bufio.NewReader(strings.NewReader(s))}
		var err error
		for err == nil {
			_, err = r.next()
		}
		require.ErrorIs(t, err, ErrLongReply, name)
	}
}

func TestAReplyReaderRefusesWhatIsNoReply(t *testing.T) {
	for _, s := range []string{
		"\r\n", "\n", ":\r\n", ":x\r\n", "$x\r\n", "$1 \r\n", "*x\r\n", "PONG\r\n", "HTTP/1.1 400 Bad Request\r\n", "+OK\n", "$1\r\nxxx", "*1\r\n\r\n", "%1\r\n", "_\r\n",
	} {
		r := replyReader{in: bufio.NewReader(strings.NewReader(s))}
		_, err := r.next()
		require.ErrorIs(t, err, errNoReply, "%q", s)
	}
	for _, s := range []string{"", "+OK", "$3\r\nab", "*2\r\n:1\r\n", "*1\r\n$1\r\nx\r", "-ERR"} {
		r := replyReader{in: bufio.NewReader(strings.NewReader(s))}
		_, err := r.next()
		assert.Contains(t, []error{io.EOF, io.ErrUnexpectedEOF}, err, "%q", s)
	}
	_, _ = Answer{Reply: []any{"odd"}}.Fields() // Half a pair is no reason to panic.
}

// What a server announces is not allocated for redigo either.
func TestRedigoDoesNotGetALongReply(t *testing.T) {
	s := newSocket(&readConn{Reader: strings.NewReader("*1\r\n$1099511627776\r\n")})
	s.plain = true
	_, err := redis.NewConn(s, 0, 0).Receive()
	require.ErrorIs(t, err, ErrLongReply)
	n, err := s.Read(make([]byte, 64)) // A *redis.Pool that takes the connection back reads on.
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, n)
}

// A readConn is a connection of which only reads are used.
type readConn struct {
	net.Conn
	io.Reader
}

func (c *readConn) Read(b []byte) (int, error)      { return c.Reader.Read(b) }
func (c *readConn) SetReadDeadline(time.Time) error { return nil }
func (c *readConn) Close() error                    { return nil }

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

func TestErrorsThatEndAConnection(t *testing.T) {
	for _, s := range []string{
		"READONLY You can't write against a read only replica.",
		"ERR Error running script (call to f_5cb4): @user_script:12: @user_script: 12: -READONLY You can't write.",
		"MASTERDOWN Link with MASTER is down", "NOAUTH Authentication required.",
	} {
		require.ErrorContains(t, WrongServer(redis.Error(s)), s)
	}
	for _, s := range []string{"LOADING Redis is loading", "MOVED 1 10.0.0.1:6379", "READONLYX y", "ERR READONLY x"} {
		require.NoError(t, WrongServer(redis.Error(s)), s)
	}
	require.NoError(t, WrongServer(errors.New("READONLY x")), "not the server's")
	require.Error(t, (&redigoLink{}).Flush(), "a panic in a user's connection is one of its errors")
}

// The likely cause comes before the error, which stays what it is.
func TestLikelyCauseIsAddedOnce(t *testing.T) {
	for first, want := range map[string]string{
		"":             "the server hung up before it answered anything",
		"\x15\x03\x01": "the port speaks TLS",
		"\x16\x03\x01": "the port speaks TLS",
		"HTTP/1.1 400": "the port speaks HTTP",
		"SSH-2.0":      "the port does not speak Redis",
	} {
		s := &socket{first: first}
		err := likely(io.EOF, s)
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, io.EOF)
		assert.Equal(t, err, likely(err, s))
	}
	assert.Equal(t, io.EOF, likely(io.EOF, &socket{first: "+OK"}), "a server that has answered")
	assert.Equal(t, io.EOF, Explain(io.EOF), "nothing is known")
}

// What a server does not know it repeats with all arguments, which may be a script.
func TestLikelyCauseOfAnUnknownCommandIsToldWithoutItsArguments(t *testing.T) {
	for says, want := range map[string]string{
		"ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' 'local n' ":   "ERR unknown command 'SCRIPT'",
		"ERR unknown command `SCRIPT`, with args beginning with: `LOAD`, `local n`, ": "ERR unknown command `SCRIPT`",
		"NOPERM unknown, with args beginning with: 'a'":                               "NOPERM unknown, with args beginning with: 'a'",
	} {
		assert.Equal(t, redis.Error(want), WithoutArguments(redis.Error(says)))
	}
}
