package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionOfAModuleWithAMajorVersionOfItsOwn(t *testing.T) {
	const pool = "integrations/redsync/redis/goredis/v9"
	for version, want := range map[string]string{
		"v0.91.0": "v9.91.0", "v1.2.3": "v9.1002.3", "v1.0.0-rc.1": "v9.1000.0-rc.1", "v0.2.10-beta": "v9.2.10-beta",
	} {
		assert.Equal(t, want, versionOf(pool, version))
		assert.Equal(t, "integrations/redsync/redis/goredis/"+want, tagOf(pool, version))
		assert.Equal(t, version, versionOf("integrations/redsync", version))
		assert.Equal(t, "integrations/redsync/"+version, tagOf("integrations/redsync", version))
		assert.Equal(t, version, tagOf(".", version))
	}
}
