package testkit

import (
	"os"
	"os/exec"
	"testing"
)

// Chromium returns the path of Chromium, which shows the pages in tests. Where there is none the test is skipped, but
// fails if CI=true.
func Chromium(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no chromium: scripts/tools.sh installs it")
		}
		t.Skip("no chromium")
	}
	return path
}
