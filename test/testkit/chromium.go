package testkit

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Chromium returns how to run Chromium, which shows the pages in tests, in the light or dark. It returns the page as it is
// in the end, with --dump-dom, and what was written to the console. Where there is none the test is skipped, but fails if
// CI=true.
func Chromium(t *testing.T) func(t *testing.T, dark bool, args ...string) (dom string, console []string) {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no chromium: scripts/tools.sh installs it")
		}
		t.Skip("no chromium")
	}
	return func(t *testing.T, dark bool, args ...string) (dom string, console []string) {
		t.Helper()
		all := []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr",
			"--timeout=300000", "--user-data-dir=" + t.TempDir(),
		}
		if dark {
			all = append(all, "--blink-settings=preferredColorScheme=0")
		}
		cmd := exec.CommandContext(t.Context(), path, append(all, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err)
		for line := range strings.Lines(stderr.String()) {
			if strings.Contains(line, ":CONSOLE") {
				console = append(console, line)
			}
		}
		return string(out), console
	}
}
