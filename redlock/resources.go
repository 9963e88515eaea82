package redlock

import (
	"errors"
	"fmt"
)

const (
	// MaxResources is how many resources one lock may have. A node carries out a
	// script without interruption, so that a larger lock would keep everybody else
	// waiting there.
	MaxResources = 4096

	// maxKeyBytes bounds the keys of a lock together. With MaxResources, it keeps the
	// answer to every script far below what a connection reads of one reply (1 MiB): the longest one is that of a release,
	// which names a channel, of about the length of a key, for each of them.
	maxKeyBytes = 512 << 10
)

// keysOf checks the resources and returns them sorted, each once, with their
// boxed keys.
func keysOf(prefix string, resources []string) ([]string, []any, error) {
	if len(resources) == 0 {
		return nil, nil, errors.New("redlock: no resources")
	}
	resources = unique(resources)
	if len(resources) > MaxResources {
		return nil, nil, fmt.Errorf("redlock: %d resources: at most %d can be locked together", len(resources), MaxResources)
	}
	keys, bytes := make([]any, len(resources)), 0
	for i, res := range resources {
		if res == "" {
			return nil, nil, fmt.Errorf("redlock: empty resource in %q", resources)
		}
		key := prefix + res
		if isReserved(key) {
			return nil, nil, fmt.Errorf("redlock: resource %q: keys with %q are reserved", res, reservedMark)
		}
		keys[i] = key
		bytes += len(key)
	}
	if bytes > maxKeyBytes {
		return nil, nil, fmt.Errorf("redlock: the keys of %d resources have %d bytes: at most %d are allowed", len(resources), bytes, maxKeyBytes)
	}
	return resources, keys, nil
}
