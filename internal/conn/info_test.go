package conn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseInfo(t *testing.T) {
	fields := ParseInfo("# Server\r\nrun_id:abc\r\n\r\nempty:\r\nno colon\r\nlistener0:name=tcp,bind=::1\r\nlast:1")
	assert.Equal(t, Info{"run_id": "abc", "empty": "", "listener0": "name=tcp,bind=::1", "last": "1"}, fields)
	assert.Empty(t, ParseInfo(""))
	n, ok := fields.Number("last")
	assert.True(t, ok)
	assert.Equal(t, int64(1), n)
	_, ok = fields.Number("run_id")
	assert.False(t, ok)
}

func TestInfoHasARunThatTheServerTellsTheTruthAbout(t *testing.T) {
	id := strings.Repeat("a0", 20)
	assert.Equal(t, id, Info{"run_id": id}.Run())
	for _, lie := range []string{"", "abc", strings.Repeat("0", 40), strings.Repeat("A0", 20), id + "0"} {
		assert.Empty(t, Info{"run_id": lie}.Run(), lie)
	}
}

func TestInfoHasAMajorVersion(t *testing.T) {
	for version, want := range map[string]int{"7.4.1": 7, "v1.24.0": 1, "10": 10} {
		got, ok := Major(version)
		assert.True(t, ok, version)
		assert.Equal(t, want, got, version)
	}
	_, ok := Major("")
	assert.False(t, ok)
}
