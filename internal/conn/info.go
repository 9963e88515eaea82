package conn

import (
	"strconv"
	"strings"
)

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
