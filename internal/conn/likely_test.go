package conn

import (
	"context"
	"io"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		"ERR unknown command 'get'":                     "ERR unknown command 'get'",
		"ERR x, with args beginning with: 'unknown'":    "ERR x, with args beginning with: 'unknown'",
		"NOPERM unknown, with args beginning with: 'a'": "NOPERM unknown, with args beginning with: 'a'",
	} {
		assert.Equal(t, redis.Error(want), WithoutArguments(redis.Error(says)))
	}
	assert.Equal(t, io.EOF, WithoutArguments(io.EOF))
	require.NoError(t, WithoutArguments(nil))
}

// An attempt ends with its context. redigo leaves a goroutine behind then, which may still read from the socket.
func TestLikelyCauseOfAnAttemptThatEndedWithItsContextIsNotLookedFor(t *testing.T) {
	for _, ended := range []error{context.DeadlineExceeded, context.Canceled} {
		s, read := new(socket), make(chan struct{})
		go func() {
			defer close(read)
			s.first, s.begun = "HTTP", true // The race detector sees it.
		}()
		require.Equal(t, ended, likely(ended, s))
		<-read
		require.Equal(t, ended, likely(ended, s))
	}
}
