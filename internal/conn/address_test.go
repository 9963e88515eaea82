package conn

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]struct{ name, network, address string }{
		"localhost:6379":                 {"localhost:6379", "tcp", "localhost:6379"},
		":6379":                          {"localhost:6379", "tcp", "localhost:6379"},
		"redis://h":                      {"h:6379", "tcp", "h:6379"},
		"redis://h:1/3":                  {"h:1/3", "tcp", "h:1"},
		"redis://user:p%40w@h:1/2":       {"h:1/2", "tcp", "h:1"},
		"redis://[::1]/2":                {"[::1]:6379/2", "tcp", "[::1]:6379"},
		"redis://h:1/?db=2":              {"h:1/2", "tcp", "h:1"},
		"valkey://u:p@h/2":               {"h:6379/2", "tcp", "h:6379"},
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

// Valkey's clients take both names. Under theirs, TLS must not get lost.
func TestSchemesOfValkey(t *testing.T) {
	for scheme, options := range map[string]int{"redis": 0, "valkey": 0, "rediss": 1, "valkeys": 1} {
		got, err := parseAddress(scheme + "://h:1")
		require.NoError(t, err)
		assert.Len(t, got.options, options, "%s: TLS is the only option", scheme)
	}
}

// What a query asks for is done, or named in the error: other clients have more of them. Values
// are never shown, nor what may be a password with a ? in it.
func TestQueries(t *testing.T) {
	for addr, want := range map[string]string{
		"redis://h:1?client_name=x":      `"client_name" in the query means nothing here (only db does)`,
		"redis://h:1/2?db=3":             "a database in the path and in the query",
		"unix:///p?db=2&db=2":            "more than one database in the query",
		"redis://h:1?db=x":               "database: want a number",
		"redis://h:1#f":                  "a fragment means nothing here",
		"redis://h:1?s3cret":             "what is in the query means nothing here (only db does)",
		"redis://:12?secret=x@h:1":       "what is in the query means nothing here (only db does)",
		"redis://h:1?%70rotocol=3":       `"protocol" in the query means nothing here (only db does)`,
		"redis://h:1?" + longName + "=1": "what is in the query means nothing here (only db does)",
	} {
		_, err := parseAddress(addr)
		assert.EqualError(t, err, want, addr)
	}
}

const longName = "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz"

// What people have at hand, and what they are told. None of it shows a password.
func TestAddressesOfOthers(t *testing.T) {
	const (
		keyValue = "key=value means nothing here: want host:port or redis://user:password@host:port, with rediss:// for TLS"
		scheme   = "unknown scheme: want host:port, redis://, rediss:// or unix://"
		brackets = "an IPv6 address needs brackets and a port: [::1]:6379"
		socket   = "a socket needs a URL: unix:///run/redis.sock"
		empty    = "it is empty: is a variable unset?"
		url      = "credentials need a URL: redis://user:password@host:port"
	)
	for addr, want := range map[string]struct{ shown, wanted string }{
		"":                                    {"", empty},
		"host=h,port=6379,password=" + secret: {"host=…", keyValue},
		"password=" + secret:                  {"password=…", keyValue},
		"a.redis.cache.windows.net:6380,password=" + secret + "=,ssl=True": {"a.redis.cache.windows.net:…", keyValue},
		"password=" + secret + "://x":                                      {"password=…", keyValue},
		"a:1,b:1":                                                          {"a:…", "want one address, not a list"},
		"valkey://u:" + secret + "@h:x":                                    {"valkey://…", "not a URL"},
		"redis+sentinel://:" + secret + "@h/x":                             {"redis+sentinel://…", scheme},
		"foo://u:" + secret + "@h:1":                                       {"…", scheme},
		"redis://host=" + secret + ":1":                                    {"redis://…", "want host:port, or a URL"},
		"redis://u:pa@" + secret + ":word":                                 {"redis://…", "not a URL"},
		"::1:6379":                                                         {":…", brackets},
		"[::1]":                                                            {"…", brackets},
		"rediss://u:" + secret + "@2001:db8::7/2":                          {"rediss://…", brackets},
		"/run/redis.sock":                                                  {"…", socket},
		"unix://run/redis.sock":                                            {"unix://…", socket},
		"u:" + secret + "@h:1":                                             {"…", url},
		secret + "@h:1":                                                    {"…", url},
		"u:" + secret:                                                      {"u:…", "port: want 1 to 65535"},
		"localhost":                                                        {"localhost", "want host:port, such as localhost:6379"},
	} {
		name, d := NewDialer(addr)
		assert.Equal(t, want.shown, name, addr)
		require.EqualError(t, d.Err, fmt.Sprintf("malformed address %q: %s", want.shown, want.wanted), addr)
		assert.NotContains(t, fmt.Sprintf("%v %+v", d, d), secret, addr)
	}
}

const secret = "S3cretWord"

// Of what is refused nothing is shown that stands behind a : or = or @, and of what is taken no password.
func FuzzAddressShowsNoSecret(f *testing.F) {
	for _, around := range [][3]string{
		{"redis://u", ":", "@h:1"},
		{"redis://u:p@", "@", ":x"},
		{"u", ":", "@h:1:2"},
		{"host=h,password", "=", ""},
		{"h:6380,password", "=", "=,ssl=True"},
		{"redis://:p?x", "=", "@h:1"},
		{"unix://u", ":", "/p@x"},
		{"a://b", ":", "://c"},
		{"redis://h:1/", ":", ""},
		{"redis://h:1?", "=", ""},
		{"redis://u:12?", ":", "#@h"},
		{"password", "=", "://h"},
		{"[::1]", ":", ""},
	} {
		f.Add(around[0], around[1], around[2])
	}
	f.Fuzz(func(t *testing.T, before, separator, after string) {
		if separator != ":" && separator != "=" && separator != "@" {
			return
		}
		addr := before + separator + secret + after
		name, d := NewDialer(addr)
		if d.Err == nil { // Then it may be the host, or a path.
			if u, err := url.Parse(addr); err == nil && u.User != nil && !strings.Contains(u.Host+u.Path, secret) {
				require.NotContains(t, fmt.Sprintf("%s %v %+v", name, d, d), secret)
			}
			return
		}
		require.NotContains(t, fmt.Sprintf("%s %v %v", name, d.Err, d), secret, "%q", addr)
	})
}
