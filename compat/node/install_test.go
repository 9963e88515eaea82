package node

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Several processes install at the same time, and each finds all of it in place.
func TestInstallAtTheSameTime(t *testing.T) {
	t.Parallel()
	const npm = `rm -rf node_modules && mkdir node_modules && sleep 0.2 && echo 1 >node_modules/one && echo 2 >node_modules/two`
	dir := t.TempDir()
	for _, name := range []string{".npmrc", "package.json", "package-lock.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := install(dir, "sh", "-c", npm); assert.NoError(t, err) {
				assert.FileExists(t, filepath.Join(dir, "node_modules", "two"))
			}
		})
	}
	all.Wait()
	left, err := filepath.Glob(filepath.Join(dir, "node_modules-*"))
	require.NoError(t, err)
	assert.Empty(t, left)

	// What package-lock.json names now takes the place of what it has named.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package-lock.json"), []byte("{ }"), 0o600))
	require.NoError(t, install(dir, "sh", "-c", "mkdir node_modules && echo 3 >node_modules/three"))
	assert.FileExists(t, filepath.Join(dir, "node_modules", "three"))
	assert.NoFileExists(t, filepath.Join(dir, "node_modules", "two"))
	require.NoError(t, install(dir, "false"), "it is there")
}
