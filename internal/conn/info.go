package conn

import (
	"strconv"
	"strings"
)

// An Info is what a server says of itself: the fields of its answer to INFO.
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

// Run returns the run_id of a server that tells the truth about it; empty if it does not.
func (i Info) Run() string {
	if id := i["run_id"]; IsRun(id) {
		return id
	}
	return ""
}

// IsRun reports whether this is the run_id of a server that tells the truth about it.
func IsRun(id string) bool {
	return len(id) == 40 && strings.Trim(id, "0123456789abcdef") == "" && strings.Trim(id, id[:1]) != ""
}

// Major is the first number of a version, before which a v may stand.
func Major(version string) (int, bool) {
	digits, _, _ := strings.Cut(strings.TrimLeft(version, "v"), ".")
	n, err := strconv.Atoi(digits)
	return n, err == nil
}
