package testkit

import (
	"bytes"
	_ "embed"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
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

// A Harness serves pages, and one that has another in a frame and does there what somebody at a keyboard would.
type Harness struct {
	URL string

	mu   sync.Mutex
	seen []string
}

//go:embed harness.js
var harnessScript []byte

// NewHarness serves the harness at /harness; harness.js is what all of them have in common. The picture at its end comes when
// done is closed, which is what the browser waits for: it is when the harness has told so, unless somebody else does it.
func NewHarness(t *testing.T, pages http.Handler, harness []byte, done chan struct{}) *Harness {
	t.Helper()
	h := &Harness{}
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.HandleFunc("/harness", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(harness) })
	mux.HandleFunc("/harness.js", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(harnessScript) })
	mux.HandleFunc("/seen", func(_ http.ResponseWriter, req *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if what := req.FormValue("what"); what != "done" {
			h.seen = append(h.seen, what)
		} else {
			close(done)
		}
	})
	mux.HandleFunc("/picture", func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-done:
			w.WriteHeader(http.StatusNoContent)
		case <-req.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	h.URL = server.URL + "/harness"
	return h
}

// Seen is what the harness has told.
func (h *Harness) Seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}
