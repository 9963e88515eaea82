package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed6c881748/redlock/internal/brief"
)

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
