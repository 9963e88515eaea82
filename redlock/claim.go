package redlock

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/node"
)

// A claim is one attempt's token on a set of resources, and what is known of
// its traces on every node. A token is made for one attempt and never used
// again: with one token over several attempts, what is late of an earlier
// attempt would act on a later one.
type claim struct {
	node.Token

	resources []string // sorted, each once
	keys      []any    // prefix+resource, boxed
	token     string
	args      []any                     // of its lock request, boxed
	left      atomic.Pointer[time.Time] // a release leaves the keys until then; nil: it deletes them
	fencing   *fencing                  // nil: without

	// wake is how the claim's release tells those who wait; nil: it does not, or there is
	// none yet. It has no lock: it is set before the first release is handed to a node, and
	// never after that. A node's goroutines look at it for a release only, which has come to
	// them through the node's mutex.
	wake teller
}

// A teller has a release tell those who wait.
type teller interface {
	lineKeys() []any    // the keys of the resources, and their bells
	reader() node.Voter // reads who was told
}

// newClaim makes a claim with a token of its own; owner is its label, empty for none.
func newClaim(resources []string, keys []any, owner string, ttl time.Duration, nodes int) *claim {
	token := newToken()
	if owner != "" {
		token += ownerMark + owner
	}
	c := &claim{resources: resources, keys: keys, token: token, args: lockArgs(token, ttl)}
	c.Begin(c, nodes, ttl)
	return c
}

// withFencing has the lock request ask for a fence. What it proposes is the client's clock
// in µs.
func (c *claim) withFencing(f *fencing, now time.Time) {
	c.fencing = f
	proposal := now.UnixMicro()
	if proposal > maxFence {
		proposal = 0
	}
	c.args = fencedLockArgs(c.args, proposal, f)
}

// leaveUntil notes that a release is to leave the keys until t.
func (c *claim) leaveUntil(t time.Time) { c.left.Store(&t) }

// leaveMillis is for how long a release leaves the keys from now on.
func (c *claim) leaveMillis(now time.Time) int64 {
	t := c.left.Load()
	if t == nil || !now.Before(*t) {
		return 0
	}
	return serverMillis(t.Sub(now))
}

// newToken returns 128 random bits in hexadecimal.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails: crypto/rand ends the program instead.
	return hex.EncodeToString(b[:])
}

// digest is what a refusal shows of a token; digestLua is its twin.
func digest(token string) string {
	sum := sha1.Sum([]byte(token))
	return hex.EncodeToString(sum[:6])
}

func (c *claim) lockCommand() node.Command {
	if c.fencing != nil {
		return fencedLockCommand(c.args, c.fencing)
	}
	return lockCommand(c.keys, c.args)
}

// wakeReader reads from the answer to a release for which no round waits who was told of it.
func (c *claim) ReleaseVoter() node.Voter {
	if c.wake == nil {
		return nil
	}
	return c.wake.reader()
}

// releaseCommand is the release of a lock or of an attempt that was cut short, which
// tell the next in line, or of one that has failed.
func (c *claim) ReleaseCommand(now time.Time) node.Command {
	if c.wake == nil {
		return undoCommand(c.keys, c.args)
	}
	if ms := c.leaveMillis(now); ms > 0 {
		return leaveCommand(c.wake.lineKeys(), c.token, ms)
	}
	return unlockCommand(c.wake.lineKeys(), c.args)
}

// A lock's owner is a label that says to people who holds it; see WithOwner. It travels
// in the token itself, so that it is there as long as the lock is, on every node that has
// the lock, and costs no request and no key:
//
//	0123456789abcdef0123456789abcdef owner=host/pid
//
// The part before the mark is random and alone makes the token unique. It is never shown
// beyond its first characters, as without a label. No other client's token has the form:
// those of node-redlock, redsync and RedLock.net have no spaces, and before the mark there
// are exactly 32 hexadecimal digits in lower case. So nothing that another client, or
// somebody by hand, keeps secret is taken for a label.
const (
	ownerMark = " owner="

	// tokenLength is the length of a token without a label.
	tokenLength = 32

	// maxOwner bounds a label. It is sent with every request that names the token, and
	// comes back with every refusal.
	maxOwner = 128
)

// checkOwner reports what is wrong with a label.
func checkOwner(label string) error {
	switch {
	case len(label) > maxOwner:
		return fmt.Errorf("redlock: owner label %q… of %d bytes: must not exceed %d", strings.ToValidUTF8(label[:maxOwner/4], ""), len(label), maxOwner)
	case !utf8.ValidString(label) || !brief.IsPrintable(label):
		return fmt.Errorf("redlock: owner label %q: must be UTF-8 without control characters", label)
	}
	return nil
}

// ownerOf returns the label in a token, empty if there is none. ownerLua is its twin, but
// for what is in the label: a value that is none of this library's may have any bytes
// there.
func ownerOf(token string) string {
	if len(token) <= tokenLength || !isHex(token[:tokenLength]) {
		return ""
	}
	label, ok := strings.CutPrefix(token[tokenLength:], ownerMark)
	if !ok {
		return ""
	}
	return shownOwner(label)
}

// shownOwner is a label as a node has answered it; empty if it is none.
func shownOwner(label string) string {
	if len(label) > maxOwner || !utf8.ValidString(label) || !brief.IsPrintable(label) {
		return ""
	}
	return label
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// ownerLua is the label in the value v: empty if v has no label, or is longer than any
// token of this library. The pattern tells at which place the mark begins.
var ownerLua = `(#v <= ` + strconv.Itoa(tokenLength+len(ownerMark)+maxOwner) +
	` and string.match(v, '^[0-9a-f]+()` + ownerMark + `.') == ` + strconv.Itoa(tokenLength+1) +
	` and string.sub(v, ` + strconv.Itoa(tokenLength+len(ownerMark)+1) + `) or '')`

// heldBy says in a few words who holds a resource on a node: its label, if it has one,
// and the digest of its token.
func heldBy(holder, owner string, ttl time.Duration) string {
	if owner != "" {
		holder = fmt.Sprintf("%q (%s)", owner, holder)
	}
	if ttl < 0 {
		return fmt.Sprintf("held by %s without expiry", holder)
	}
	return fmt.Sprintf("held by %s for %v", holder, ttl)
}
