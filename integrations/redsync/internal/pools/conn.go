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

// A Conn is a connection of redsync's for a client that can send any command.
type Conn struct {
	Send func(command string, args ...any) (any, error)
	Nil  error        // what Send returns for a reply that is nil, if it does: it is none here
	End  func() error // nil: there is nothing to close
}

func (c *Conn) do(command string, args ...any) (any, error) {
	reply, err := c.Send(command, args...)
	if errors.Is(err, c.Nil) {
		err = nil
	}
	return reply, err
}

func (c *Conn) text(command string, args ...any) (string, error) {
	text, err := redis.String(c.do(command, args...))
	if errors.Is(err, redis.ErrNil) {
		err = nil
	}
	return text, err
}

// Get returns the value of a key, and none for a key that is not there.
func (c *Conn) Get(name string) (string, error) { return c.text("GET", name) }

// Set sets the value of a key.
func (c *Conn) Set(name, value string) (bool, error) {
	text, err := c.text("SET", name, value)
	return text == "OK", err
}

// SetNX sets a key that is not there. Without an expiry it stays.
func (c *Conn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	args := []any{name, value, "NX"}
	if expiry != 0 {
		args = append(args, "PX", expiry.Milliseconds())
	}
	text, err := c.text("SET", args...)
	return text == "OK", err
}

// PTTL returns how long a key lives.
func (c *Conn) PTTL(name string) (time.Duration, error) {
	ms, err := redis.Int64(c.do("PTTL", name))
	return time.Duration(ms) * time.Millisecond, err
}

// Eval runs a script, by its hash if the server has it.
func (c *Conn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	count := []any{script.KeyCount}
	if script.KeyCount < 0 {
		count = nil
	}
	args := append(count, keysAndArgs...)
	reply, err := c.do("EVALSHA", append([]any{script.Hash}, args...)...)
	if err != nil && strings.Contains(err.Error(), "NOSCRIPT ") {
		return c.do("EVAL", append([]any{script.Src}, args...)...)
	}
	return reply, err
}

// ScriptLoad has the server know a script.
func (c *Conn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := c.text("SCRIPT", "LOAD", script.Src)
	if err == nil {
		script.Hash = hash
	}
	return err
}

// Close closes what was made for the connection.
func (c *Conn) Close() error {
	if c.End == nil {
		return nil
	}
	return c.End()
}
