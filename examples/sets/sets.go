package main

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/seed6c881748/redlock/redlock"
)

// A Set is a few nodes with a name, and this process's Redlock for them.
type Set struct {
	// Name decides which resources the set has. So it stays as it is when nodes are
	// replaced, and is never that of another set.
	Name string
	*redlock.Redlock
}

// Sets are all of them, in any order.
type Sets []Set

// At returns the set that a resource belongs to: the one whose hash with the resource
// is the largest (rendezvous hashing). Every process that knows the same names comes
// to the same result. A new set takes its share from all others, and no resource
// moves between these.
func (s Sets) At(resource string) Set {
	best, most := 0, uint64(0)
	for i, set := range s {
		sum := sha256.Sum256([]byte(set.Name + "\x00" + resource))
		if weight := binary.BigEndian.Uint64(sum[:]); weight > most {
			best, most = i, weight
		}
	}
	return s[best]
}
