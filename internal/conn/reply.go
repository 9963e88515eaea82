package conn

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

const (
	// maxReply bounds the bytes of one reply, and of one string in it. The largest that the library asks for is the
	// answer to a release, which names a channel, about as long as a key, for each key of a lock: the keys have 512 KiB
	// together at most.
	maxReply = 1 << 20

	// maxString bounds a reply that is one string: the value of a lock's key, where another program has
	// stored something else. It must not end the connection that all callers share; see node/direct.go.
	maxString = 16 << 20

	// maxValues bounds the values in one reply, nested ones included.
	maxValues = 1 << 16
)

var (
	// ErrLongReply ends a connection.
	ErrLongReply = errors.New("the server's reply is too long")

	errNoReply = errors.New("what the server sent is no reply")
)

// A replyReader reads the server's replies (RESP2) into the same values as redigo, but in half the time, and
// none that is larger than any that the library asks for. redigo allocates what a reply announces before it
// has arrived, and reads nested arrays recursively: a few bytes could exhaust the memory or the stack, and
// neither can be recovered from.
type replyReader struct {
	in            *bufio.Reader
	bytes, values int64 // that the reply may still have
	number        any   // the latest, boxed: it is mostly the same, such as the ttl of all locks
	copies        bool
	copied        []byte // if it copies: what was read
}

// next reads a reply. A server's error is a value of type redis.Error.
func (r *replyReader) next() (any, error) {
	r.bytes, r.values = maxReply, maxValues
	return r.value(maxString)
}

// value reads a value. A string may have longest bytes, even where that exceeds the limit of the reply.
func (r *replyReader) value(longest int64) (any, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	kind, text := line[0], line[1:]
	n, err := strconv.ParseInt(string(text), 10, 64) // If it is out of range, n is the largest there is.
	switch {
	case kind == '+':
		return string(text), nil
	case kind == '-':
		return redis.Error(text), nil
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return nil, errNoReply
	case kind == ':':
		if n >= 0 && n < 256 { // Go boxes these without an allocation.
			return n, nil
		}
		if last, ok := r.number.(int64); !ok || last != n {
			r.number = n
		}
		return r.number, nil
	case kind == '$' && n >= 0:
		return r.text(n, longest)
	case kind == '*' && n >= 0:
		return r.array(n)
	case kind == '$' || kind == '*':
		return nil, nil
	default:
		return nil, errNoReply
	}
}

// line reads a line, and returns it without its end. It has at least one byte.
func (r *replyReader) line() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		long := []byte(nil)
		for ; errors.Is(err, bufio.ErrBufferFull) && int64(len(long)) <= r.bytes; line, err = r.in.ReadSlice('\n') {
			long = append(long, line...)
		}
		line = append(long, line...)
	}
	r.bytes -= int64(len(line))
	r.copy(line)
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	switch {
	case r.bytes < 0:
		return nil, ErrLongReply
	case err == nil && (!ok || len(line) == 0):
		return nil, errNoReply
	}
	return line, err
}

// text reads a string of n bytes.
func (r *replyReader) text(n, longest int64) (any, error) {
	if r.bytes = max(r.bytes, longest) - n - 2; r.bytes < 0 {
		return nil, ErrLongReply
	}
	b := make([]byte, n+2)
	_, err := io.ReadFull(r.in, b)
	r.copy(b)
	if err == nil && string(b[n:]) != "\r\n" {
		err = errNoReply
	}
	return b[:n], err
}

// array reads n values.
func (r *replyReader) array(n int64) (any, error) {
	if r.values -= n; r.values < 0 {
		return nil, ErrLongReply
	}
	array, err := make([]any, n), error(nil)
	for i := 0; i < len(array) && err == nil; i++ {
		array[i], err = r.value(0)
	}
	return array, err
}

func (r *replyReader) copy(b []byte) {
	if r.copies {
		r.copied = append(r.copied, b...)
	}
}
