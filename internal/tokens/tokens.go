// Package tokens makes the values of locks' keys: 128 random bits, followed by a label that says to people who holds
// the lock. It knows how a token is made, read, shortened and shown. It does not know where tokens are stored, nor what
// locks and releases do.
package tokens

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/seed6c881748/redlock/internal/brief"
)

// A lock's owner is a label that says to people who holds it; see WithOwner. It is part of the token, so it is on every
// node that has the lock for as long as the lock is, and costs no request and no key:
//
//	0123456789abcdef0123456789abcdef owner=host/pid
//
// The part before the mark is random and alone makes the token unique. Only its first characters are ever shown, as of
// a token without a label. No other client's token has this form: those of node-redlock, redsync and RedLock.net have
// no spaces, and exactly 32 hexadecimal digits in lower case stand before the mark. So no secret of another client, or
// of somebody who set a key by hand, is taken for a label.
const (
	LabelMark = " owner="

	// Length is the length of a token without a label.
	Length = 32

	// MaxLabel bounds a label. It is sent with every request that names the token, and comes back with every refusal.
	MaxLabel = 128
)

// CheckLabel returns an error if a label is not allowed.
func CheckLabel(label string) error {
	switch {
	case len(label) > MaxLabel:
		return fmt.Errorf("redlock: owner label %q… of %d bytes: must not exceed %d", strings.ToValidUTF8(label[:MaxLabel/4], ""), len(label), MaxLabel)
	case !utf8.ValidString(label) || !brief.IsPrintable(label):
		return fmt.Errorf("redlock: owner label %q: must be UTF-8 without control characters", label)
	}
	return nil
}

// LabelOf returns the label in a token, empty if there is none. Scripts find it as well, but do not check its content:
// a value that is not this library's may have any bytes there.
func LabelOf(token string) string {
	label, ok := strings.CutPrefix(token[min(len(token), Length):], LabelMark)
	if !ok || !isHex(token[:Length]) {
		return ""
	}
	return ShownLabel(label)
}

// ShownLabel returns a label as a node has answered it, or nothing if that is not a label.
func ShownLabel(label string) string {
	if len(label) > MaxLabel || !utf8.ValidString(label) || !brief.IsPrintable(label) {
		return ""
	}
	return label
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// New returns 128 random bits in hexadecimal.
func New() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails: crypto/rand ends the program instead.
	return hex.EncodeToString(b[:])
}

// ofTurn begins the names that are not the value of any key.
const ofTurn = "turn:"

// NewOfTurn returns a name for a lock that is part of a turn, whose keys hold the token of the turn.
func NewOfTurn() string { return ofTurn + New() }

// shown is how many characters of a token Short shows: enough to tell two apart, too few to release a lock with.
const shown = 8

// Short returns the beginning of a token, with an ellipsis if something is left out.
func Short(token string) string {
	if len(token) <= shown {
		return token
	}
	return token[:shown] + "…"
}

// Digest returns a digest of a token. It may be shown, unlike the token, with which anybody can release the lock.
// Scripts make the same digests.
func Digest(token string) string {
	sum := sha1.Sum([]byte(token))
	return hex.EncodeToString(sum[:6])
}

// ShownDigest returns a digest as a node has answered it, or "?" if that is not a digest, which a node with this
// library's scripts never answers.
func ShownDigest(digest string) string {
	if len(digest) > DigestLen || !isHex(digest) {
		return "?"
	}
	return digest
}

// DigestLen is the length of a Digest.
const DigestLen = 12

// Check returns an error if token does not have the form of this library's tokens. The error
// does not show it: a value that is not a token may be another secret.
func Check(token string) error {
	switch {
	case token == "":
		return errors.New("redlock: empty token")
	case strings.HasPrefix(token, ofTurn):
		return errors.New("redlock: a lock with turns (WithTurn) is released by its handle, not by its token")
	case len(token) == Length && isHex(token), LabelOf(token) != "":
		return nil
	default:
		return fmt.Errorf("redlock: malformed token of %d bytes: want 32 hexadecimal digits, and behind them the owner's label, if it has one", len(token))
	}
}

// WithLabel returns a token with a label; without one if label is empty.
func WithLabel(token, label string) string {
	if label == "" {
		return token
	}
	return token + LabelMark + label
}
