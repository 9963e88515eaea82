package redlock

import (
	"context"
	"errors"
)

// This file is about calls that no node has to be asked for: on something that is no
// Redlock or no Lock, or without a context. Methods that return an error return one of
// these, the others panic with it.
var (
	errNilRedlock  = errors.New("redlock: nil *Redlock: did New return an error?")
	errZeroRedlock = errors.New("redlock: this Redlock is a zero value: make it with New")
	errNilLock     = errors.New("redlock: nil *Lock: did the call that should have made it return an error?")
	errZeroLock    = errors.New("redlock: this Lock is a zero value: only a Redlock makes locks")
	errNilContext  = errors.New("redlock: nil context")
	errNilFunc     = errors.New("redlock: nil function")
	errNilGuard    = errors.New("redlock: nil *Guard")
)

// must panics with err if it is not nil.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// mustHaveContext panics if ctx is nil.
func mustHaveContext(ctx context.Context) {
	if ctx == nil {
		panic(errNilContext)
	}
}
