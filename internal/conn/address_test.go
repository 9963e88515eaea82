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
