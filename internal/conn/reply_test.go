package conn

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/internal/testcluster"
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
}

// Where redigo reads, it reads the same, and no more than a reply at a time.
func TestRedigoGetsWholeReplies(t *testing.T) {
	client, server := testcluster.Pipe()
	go func() {
		defer func() { _ = server.Close() }()
		for _, reply := range harmless {
			if _, err := io.WriteString(server, reply); err != nil {
				return
			}
		}
	}()
	s := newSocket(client)
	s.plain = true
	by := redis.NewConn(s, 0, 0)
	for i, reply := range harmless {
		want, err := (&replyReader{in: bufio.NewReader(strings.NewReader(reply))}).next()
		require.NoError(t, err)
		var got any
		if i%2 == 0 {
			if got, err = by.Receive(); err != nil {
				got = err
			}
		} else {
			got, err = s.reply(0)
			require.NoError(t, err)
		}
		require.Equal(t, want, got)
	}
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
