package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reservedMark is in every key that the library keeps things of its own under.
const reservedMark = "__redlock__:"

const (
	// maxResources is how many resources one lock may have. A node carries out a
	// script without interruption, so that a larger lock would keep everybody else
	// waiting there.
	maxResources = 4096

	// maxKeyBytes bounds the keys of a lock together. With maxResources, it keeps the
	// answer to every script far below what a connection reads of one reply (1 MiB): the longest one is that of a release,
	// which names a channel, of about the length of a key, for each of them.
	maxKeyBytes = 512 << 10
)

// oneResource is space for a resource and its key: most locks have one, and then it is part of what the
// call allocates anyway.
type oneResource struct {
	resources [1]string
	keys      [1]any
}

// keysOf checks the resources and returns them sorted, each once, with their
// boxed keys, in the given space if there is one.
func keysOf(prefix string, resources []string, space *oneResource) ([]string, []any, error) {
	if len(resources) == 0 {
		return nil, nil, errors.New("redlock: no resources")
	}
	resources = append(space.resources[:0], resources...)
	slices.Sort(resources)
	resources = slices.Compact(resources)
	if len(resources) > maxResources {
		return nil, nil, fmt.Errorf("redlock: %d resources: at most %d can be locked together", len(resources), maxResources)
	}
	keys, bytes := space.keys[:0], 0
	for _, res := range resources {
		if res == "" {
			return nil, nil, fmt.Errorf("redlock: empty resource in %q", resources)
		}
		key := prefix + res
		if isReserved(key) {
			return nil, nil, fmt.Errorf("redlock: resource %q: keys with %q are reserved", res, reservedMark)
		}
		keys = append(keys, key)
		bytes += len(key)
	}
	if bytes > maxKeyBytes {
		return nil, nil, fmt.Errorf("redlock: the keys of %d resources have %d bytes: at most %d are allowed", len(resources), bytes, maxKeyBytes)
	}
	return resources, keys, nil
}

// isReserved reports whether a key lies where the library keeps things of its
// own: under this prefix or another client's.
func isReserved(key string) bool { return strings.Contains(key, reservedMark) }

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
