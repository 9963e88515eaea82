package stored

import "github.com/seed6c881748/redlock/internal/tokens"

// MaxToken is how many bytes a token has at most.
const MaxToken = tokens.Length + len(tokens.LabelMark) + tokens.MaxLabel

// CheckToken returns an error if a value does not have the form of this library's tokens, such as that of another
// library's lock. The error does not show the value, which may be a secret. It is the one of [redlock.Redlock.Release].
func CheckToken(token string) error { return tokens.Check(token) }

// Holder returns the digest of a token, which may be shown: [redlock.Lock.Holder], [redlock.Inspection],
// [redlock.Vote] and [redlock.Event] have the same. It takes any value.
func Holder(token string) string { return tokens.Digest(token) }

// Owner returns the label of [redlock.WithOwner] in a token. It is empty if there is none, or if the value is no token.
func Owner(token string) string { return tokens.LabelOf(token) }
