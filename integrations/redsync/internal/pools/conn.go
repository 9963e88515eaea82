// Package pools has what the pools of redigo and of the versions of go-redis have in common. Those of go-redis are modules
// with versions of their own, so what they call here must stay as it is.
package pools

import (
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	redsyncredis "github.com/seed6c881748/redlock/integrations/redsync/redis"
)

// conn is a connection of redsync's for a client that can send any command.
type conn struct {
	send func(command string, args ...any) (any, error)
	none error
	end  func() error
}

// NewConn returns a connection that sends by a function. none is what that returns for a reply that is nil, if it does: it is
// no error here. end closes what was made for the connection; nil: nothing was.
func NewConn(send func(command string, args ...any) (any, error), none error, end func() error) redsyncredis.Conn {
	if end == nil {
		end = func() error { return nil }
	}
	return &conn{send, none, end}
}

func (c *conn) do(command string, args ...any) (any, error) {
	reply, err := c.send(command, args...)
	if errors.Is(err, c.none) {
		err = nil
	}
	return reply, err
}

func (c *conn) text(command string, args ...any) (string, error) {
	text, err := redis.String(c.do(command, args...))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return text, err
}

func (c *conn) Get(name string) (string, error) { return c.text("GET", name) }

func (c *conn) Set(name, value string) (bool, error) {
	text, err := c.text("SET", name, value)
	return text == "OK", err
}

func (c *conn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	args := []any{name, value, "NX"}
	if expiry != 0 { // Without one it stays.
		args = append(args, "PX", expiry.Milliseconds())
	}
	text, err := c.text("SET", args...)
	return text == "OK", err
}

func (c *conn) PTTL(name string) (time.Duration, error) {
	ms, err := redis.Int64(c.do("PTTL", name))
	return time.Duration(ms) * time.Millisecond, err
}

func (c *conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	count := []any{script.KeyCount}
	if script.KeyCount < 0 { // The first argument is the count.
		count = nil
	}
	args := append(count, keysAndArgs...)
	reply, err := c.do("EVALSHA", append([]any{script.Hash}, args...)...)
	if err != nil && strings.Contains(err.Error(), "NOSCRIPT ") {
		return c.do("EVAL", append([]any{script.Src}, args...)...)
	}
	return reply, err
}

func (c *conn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := c.text("SCRIPT", "LOAD", script.Src)
	if err == nil {
		script.Hash = hash
	}
	return err
}

func (c *conn) Close() error { return c.end() }
