package redlock

import (
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/lease"
	"github.com/seed6c881748/redlock/internal/lines"
	"github.com/seed6c881748/redlock/internal/link"
	"github.com/seed6c881748/redlock/internal/node"
)

// What package redlock_test uses of this package besides its API. A test that looks deeper is in this package itself.

// The scripts, by which a test tells requests on the wire, or which it runs itself.
var (
	LockScript       = lockScript
	FencedLockScript = fencedLockScript
	RaiseScript      = raiseScript
	QueueScript      = queueScript
	UnlockScript     = unlockScript
	GrantingScripts  = grantingScripts
)

// The defaults of options, and how many resources a lock may have.
var (
	DefaultRetryDelay     = defaultOptions().retryDelay
	DefaultRetryJitter    = defaultOptions().jitter
	DefaultNodeTimeout    = defaultOptions().nodeTimeout
	DefaultConnectTimeout = defaultOptions().connectTimeout
)

const MaxResources = maxResources

// HoldsEnded and VoteCounts are the types of fields of Stats.
type (
	HoldsEnded = struct{ Released, Expired, Lost, StopTime, MaxHold, Closed int64 }
	VoteCounts = struct{ Yes, Taken, Lost, Timeout, Overloaded, Quarantined, Failed int64 }
)

// ChannelMark begins the names of the channels.
const ChannelMark = reservedMark + lines.ChannelMark

// LineKey is the key of a resource's line.
func LineKey(resource string) string { return lines.Key("", reservedMark, resource) }

// Limits.
const (
	MaxKeyBytes = maxKeyBytes
	MaxWait     = maxWait
)

// Decisions.
var (
	RetryDefault = new(options).retries
	IsOverload   = isOverload
)

// Errors that have no names in the API.
var (
	ErrNilContext = errNilContext
	ErrNilFunc    = errNilFunc
	ErrNilLock    = errNilLock
	ErrNilRedlock = errNilRedlock
	ErrNoReturn   = errNoReturn
)

// NodesIn returns the nodes as a Redlock drives them.
func NodesIn(r *Redlock) []*link.Link { return r.nodes }

// Admission returns the gate at which a Redlock's rounds wait for a place.
func Admission(r *Redlock) *calls.Gate { return r.admission }

// ChannelOf returns the channel on which a process hears of releases.
func ChannelOf(r *Redlock) string { return r.channel.(string) }

// RetryJitter returns the jitter that calls have by default.
func RetryJitter(r *Redlock) time.Duration { return r.defaults.retryJitter }

// StartOf returns when the attempt began that got the lock.
func StartOf(l *Lock) time.Time { return l.rules.Start }

// MarkEnded has a lock end as an extension does that finds the loss, just before it tells anybody.
func MarkEnded(l *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules.Ended = lease.Lost
}

// Scripts are all that are sent.
func Scripts() []*node.Script {
	return append([]*node.Script{node.Look, node.Probe}, handshakeScripts...)
}

// InspectCommand asks a node who holds a key.
var InspectCommand = inspectCommand

// Kept returns how many contexts of KeepAlive a lock knows.
func Kept(l *Lock) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.hold.kept)
}
