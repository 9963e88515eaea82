package pools

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// FailoverAddr is what go-redis gives a failover client for an address.
const FailoverAddr = "FailoverClient"

// ErrNil is the error of a pool of no client of go-redis.
var ErrNil = errors.New("goredis.NewPool was given nil")

// ManyServers is the error of a pool of a client of go-redis that does not lead to one server.
func ManyServers(client any) error {
	return fmt.Errorf("goredis.NewPool was given a %T, which may lead to several servers: "+
		"give it a redis.NewClient for one master, or one for each of several independent masters", client)
}

// Warning is what there is to say of a client of go-redis by its options.
func Warning(addr string, hasOnConnect bool) string {
	var all []string
	if hasOnConnect {
		all = append(all, "OnConnect of the client of go-redis is not called for the connections of mutexes: "+
			"if it selects a database, say so in the client's Options instead, or the locks are in another one")
	}
	if addr == FailoverAddr {
		all = append(all, "a client of a Sentinel leads to a replica after a failover, which may lack the latest locks: "+
			"two may hold one then; independent masters have no such gap")
	}
	return strings.Join(all, "; ")
}

// Inner returns the client that others embed. known are those of go-redis itself.
func Inner[C any](c C, known func(C) bool) C {
	for !known(c) {
		next, ok := embedded(c)
		if !ok {
			break
		}
		c = next
	}
	return c
}

// embedded returns the client that a struct embeds, if there is one.
func embedded[C any](c C) (next C, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.Kind() != reflect.Struct {
		return next, false
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Anonymous && f.IsExported() {
			if next, ok = v.Field(i).Interface().(C); ok {
				return next, true
			}
		}
	}
	return next, false
}

// A Command is one of go-redis, after it was sent.
type Command interface {
	Args() []any
	Err() error
	String() string
}

// Passes returns an error if a client does not hand a lock's command on as it is. setNX is its SETNX, which sends nothing
// as its context has ended; closed is the error of a client that is closed.
func Passes(closed error, setNX func(ended context.Context, key string) Command) error {
	const key = "__redlock__:probe"
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	cmd := setNX(ended, key)
	switch args := cmd.Args(); {
	case errors.Is(cmd.Err(), closed):
		return errors.New("the client of go-redis is closed")
	case !errors.Is(cmd.Err(), context.Canceled):
		return fmt.Errorf("the client of go-redis answers commands itself, as a mock does (SETNX: %v), "+
			"and mutexes do not send theirs through it: in a test, use a server, such as miniredis", cmd)
	case len(args) < 2 || args[1] != key:
		return fmt.Errorf("a hook of the client of go-redis, or what embeds it, makes %.200q of the key %q, "+
			"and mutexes do not send their commands through it: "+
			"give goredis.NewPool a client without that hook, and its prefix to the names of mutexes", fmt.Sprint(args), key)
	}
	return nil
}
