package stored

import (
	"strings"

	"github.com/seed6c881748/redlock/internal/fences"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/reserved"
)

// Reserved is in every key, and in every channel's name, that is the library's own. No resource's key has it.
const Reserved = reserved.Mark

// Keys names what is stored under a prefix.
type Keys struct {
	Prefix string // that of [redlock.WithPrefix]; empty: none
}

// Lock returns the key of a resource, whose value is the token of the lock.
func (k Keys) Lock(resource string) string { return k.Prefix + resource }

// Resource returns the resource of a [Keys.Lock]; false if a key is none.
func (k Keys) Resource(key string) (resource string, ok bool) {
	if resource, ok = strings.CutPrefix(key, k.Prefix); !ok || resource == "" || reserved.Has(key) {
		return "", false
	}
	return resource, true
}

// Line returns the key of the line of those that wait for a resource on a node. It is a sorted set of the channels on
// which they listen, one for each process, and by the µs of the node's clock since when they wait. It may lack some:
// a line is only a hint as to who is to be told of a release.
func (k Keys) Line(resource string) string { return lines.Key(k.Prefix, Reserved, resource) }

// Waiter returns the part of a channel in a [Keys.Line] that tells its process from others.
func (k Keys) Waiter(channel string) string {
	return strings.TrimPrefix(channel, k.Prefix+Reserved+lines.ChannelMark)
}

// Counter returns the key of a resource's counter, which has the last fence that a node knows of; see
// [redlock.WithFencing].
func (k Keys) Counter(resource string) string { return k.Prefix + Reserved + fences.Mark + resource }

// Marker returns the key of the [Marker].
func (k Keys) Marker() string { return k.Prefix + Reserved + quarantine.Mark }
