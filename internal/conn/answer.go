package conn

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// An Answer is a reply, or the error that the server sent instead.
type Answer struct {
	Reply any // as redigo has it: int64, []byte, string, []any, or nil for null
	Err   error
}

// Text returns an answer that is a string.
func (a Answer) Text() (string, error) { return redis.String(a.Reply, a.Err) }

// Texts returns an answer that is a list of strings.
func (a Answer) Texts() ([]string, error) { return redis.Strings(a.Reply, a.Err) }

// Numbers returns an answer that is a list of numbers.
func (a Answer) Numbers() ([]int64, error) { return redis.Int64s(a.Reply, a.Err) }

// Fields returns an answer that is a list of names and values. A value that is itself a list becomes its words in
// brackets.
func (a Answer) Fields() (map[string]string, error) {
	list, err := redis.Values(a.Reply, a.Err)
	fields := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		fields[fmt.Sprintf("%s", list[i])] = fmt.Sprintf("%s", list[i+1])
	}
	return fields, err
}

// IsNull reports whether the answer is null.
func (a Answer) IsNull() bool { return a.Reply == nil && a.Err == nil }

// IsReply reports whether the server sent the error, rather than the connection. It must not be inlined into a reader's
// loop, where the target would cost every reply an allocation.
//
//go:noinline
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// ErrorCode returns the first word of a server's error, even if a wrapped connection has wrapped it; empty for other
// errors.
func ErrorCode(err error) string {
	var reply redis.Error
	errors.As(err, &reply)
	code, _, _ := strings.Cut(string(reply), " ")
	return code
}

// wrongServerRE matches the errors by which a server says that it is not, or no longer, the one for this client's
// writes, even where a script has met them in Redis before 7. The address may lead elsewhere by now: to the new master
// after a failover behind a name or a virtual IP. A new connection also authenticates anew. Errors that pass (LOADING,
// BUSY, MISCONF, OOM) or concern this user (NOPERM) are no reason to leave.
var wrongServerRE = regexp.MustCompile(`(?:^|: -)(?:READONLY|MASTERDOWN|NOAUTH) `)

// WrongServer returns an error if err is the reply of a wrong server, else nil.
func WrongServer(err error) error {
	if !IsReply(err) || !wrongServerRE.MatchString(err.Error()) {
		return nil
	}
	if strings.Contains(err.Error(), "NOAUTH ") {
		return fmt.Errorf("the server wants a password, and was given none (redis://:password@host:port): %w", err)
	}
	return fmt.Errorf("the wrong server, or not the right one any more: %w", err)
}
