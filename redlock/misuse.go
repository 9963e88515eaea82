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

// misused says why r cannot be used with ctx, nil if it can.
func (r *Redlock) misused(ctx context.Context) error {
	if err := r.invalid(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// invalid says why r is no Redlock, nil if it is one.
func (r *Redlock) invalid() error {
	switch {
	case r == nil:
		return errNilRedlock
	case r.need == 0:
		return errZeroRedlock
	default:
		return nil
	}
}

// invalid says why l is no Lock, nil if it is one.
func (l *Lock) invalid() error {
	switch {
	case l == nil:
		return errNilLock
	case l.r == nil:
		return errZeroLock
	default:
		return nil
	}
}

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
