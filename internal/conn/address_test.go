package conn

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]struct{ name, network, address string }{
		"localhost:6379":                 {"localhost:6379", "tcp", "localhost:6379"},
		":6379":                          {"localhost:6379", "tcp", "localhost:6379"},
		"[::1]:7000":                     {"[::1]:7000", "tcp", "[::1]:7000"},
		"redis://h":                      {"h:6379", "tcp", "h:6379"},
		"redis://h:1":                    {"h:1", "tcp", "h:1"},
		"redis://h:1/":                   {"h:1", "tcp", "h:1"},
		"redis://h:1/0":                  {"h:1", "tcp", "h:1"},
		"redis://h:1/3":                  {"h:1/3", "tcp", "h:1"},
		"redis://:pw@h:1":                {"h:1", "tcp", "h:1"},
		"redis://user:p%40w@h:1/2":       {"h:1/2", "tcp", "h:1"},
		"redis://[::1]/2":                {"[::1]:6379/2", "tcp", "[::1]:6379"},
		"redis://h:1?db=2":               {"h:1/2", "tcp", "h:1"},
		"redis://h:1/?db=2":              {"h:1/2", "tcp", "h:1"},
		"rediss://h?db=0":                {"h:6379", "tcp", "h:6379"},
		"rediss://h:1":                   {"h:1", "tcp", "h:1"},
		"unix:///run/redis.sock":         {"/run/redis.sock", "unix", "/run/redis.sock"},
		"unix://user:pw@/run/redis.sock": {"/run/redis.sock", "unix", "/run/redis.sock"},
		"unix:///run/redis.sock?db=3":    {"/run/redis.sock?db=3", "unix", "/run/redis.sock"},
	} {
		got, err := parseAddress(addr)
		require.NoError(t, err, addr)
		assert.Equal(t, want.name, got.name, addr)
		assert.Equal(t, want.network, got.network, addr)
		assert.Equal(t, want.address, got.address, addr)
	}
}

// What a query asks for is done, or named in the error: other clients have more of them. Values
// are never shown, nor what may be a password with a ? in it.
func TestQueries(t *testing.T) {
	for addr, want := range map[string]string{
		"redis://h:1?client_name=x":       `"client_name" in the query means nothing here (only db does)`,
		"redis://h:1/2?dial_timeout=3s":   `"dial_timeout" in the query means nothing here (only db does)`,
		"unix:///p?db=2&protocol=3":       `"protocol" in the query means nothing here (only db does)`,
		"redis://h:1/2?db=3":              "a database in the path and in the query",
		"redis://h:1?db=2&db=3":           "more than one database in the query",
		"unix:///p?db=2&db=2":             "more than one database in the query",
		"redis://h:1?db=":                 "database: want a number",
		"redis://h:1?db=x":                "database: want a number",
		"redis://h:1#f":                   "a fragment means nothing here",
		"unix:///p#f":                     "a fragment means nothing here",
		"redis://h:1?s3cret":              "what is in the query means nothing here (only db does)",
		"redis://:12?secret=x@h:1":        "what is in the query means nothing here (only db does)",
		"redis://h:1?a=1;b=2":             "what is in the query means nothing here (only db does)",
		"redis://h:1?%70rotocol=3":        `"protocol" in the query means nothing here (only db does)`,
		"redis://h:1?password=hidden":     `"password" in the query means nothing here (only db does)`,
		"redis://h:1?b=1&a=1":             `"a" in the query means nothing here (only db does)`,
		"redis://h:1?" + longName + "=1":  "what is in the query means nothing here (only db does)",
		"redis://u:p@h:1?read_timeout=3s": `"read_timeout" in the query means nothing here (only db does)`,
	} {
		_, err := parseAddress(addr)
		assert.EqualError(t, err, want, addr)
	}
}

const longName = "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz"
