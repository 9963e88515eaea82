package redlockvalkeygo_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// valkey-go is a fork of rueidis with the same options. What is mended for one of them is mended for the other, and the
// tests there hold here.
func TestTheCodeIsThatForRueidis(t *testing.T) {
	theirs, err := os.ReadFile("../rueidis/rueidis.go")
	require.NoError(t, err)
	ours, err := os.ReadFile("valkeygo.go")
	require.NoError(t, err)
	names := strings.NewReplacer(
		"github.com/redis/rueidis", "github.com/valkey-io/valkey-go",
		"redlockrueidis", "redlockvalkeygo", "rueidis.ClientOption", "valkey.ClientOption",
		"rueidis.AuthCredentials", "valkey.AuthCredentials", "rueidis.NewClient", "valkey.NewClient",
		"rueidis", "valkey-go",
	)
	assert.Equal(t, names.Replace(string(theirs)), string(ours))
}
