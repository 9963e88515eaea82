package conn

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
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

// Fields returns an answer that is a list of names and values. A value that is a list itself becomes its words in brackets.
func (a Answer) Fields() (map[string]string, error) {
	list, err := redis.Values(a.Reply, a.Err)
	fields := make(map[string]string)
	for i := 0; i+1 < len(list); i += 2 {
		fields[fmt.Sprintf("%s", list[i])] = fmt.Sprintf("%s", list[i+1])
	}
	return fields, err
}

// IsNull reports whether the answer is that there is nothing.
func (a Answer) IsNull() bool { return a.Reply == nil && a.Err == nil }

// IsReply tells an error that the server sent from one of the connection. It must not be
// inlined into a reader's loop, where the target would cost every reply an allocation.
//
//go:noinline
func IsReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// ErrorCode is the first word of a server's error, also of one that a wrapped
// connection has wrapped; empty for other errors.
func ErrorCode(err error) string {
	var reply redis.Error
	errors.As(err, &reply)
	code, _, _ := strings.Cut(string(reply), " ")
	return code
}

// wrongServerRE finds the errors by which a server says that it is not, or not any more, the one for writes of this
// client, also where a script has met them in Redis before 7. The address may lead elsewhere by now: to the new
// master after a failover behind a name or a virtual IP; and whoever dials anew also authenticates anew. What a
// server refuses for a time (LOADING, BUSY, MISCONF, OOM), or to this user (NOPERM), is no reason to leave.
var wrongServerRE = regexp.MustCompile(`(?:^|: -)(?:READONLY|MASTERDOWN|NOAUTH) `)

// WrongServer returns an error if err is a reply of a server that is the wrong one.
func WrongServer(err error) error {
	if !IsReply(err) || !wrongServerRE.MatchString(err.Error()) {
		return nil
	}
	if strings.Contains(err.Error(), "NOAUTH ") {
		return fmt.Errorf("the server wants a password, and was given none (redis://:password@host:port): %w", err)
	}
	return fmt.Errorf("the wrong server, or not the right one any more: %w", err)
}

// An Info is the fields of a server's answer to INFO.
type Info map[string]string

// ParseInfo reads the answer to INFO.
func ParseInfo(text string) Info {
	fields := make(Info)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}

// Number returns a field that is a number.
func (i Info) Number(field string) (int64, bool) {
	n, err := strconv.ParseInt(i[field], 10, 64)
	return n, err == nil
}

// Run returns the server's run_id, empty if it hides its real one.
func (i Info) Run() string {
	if id := i["run_id"]; IsRun(id) {
		return id
	}
	return ""
}

// IsRun reports whether id can be a server's real run_id.
func IsRun(id string) bool {
	return len(id) == 40 && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, id[:1]) != ""
}

// Major returns the first number of a version, which may begin with a v.
func Major(version string) (int, bool) {
	digits, _, _ := strings.Cut(strings.TrimLeft(version, "v"), ".")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}
