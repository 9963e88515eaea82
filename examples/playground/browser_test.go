package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

// harness has the page in a frame, and presses its buttons as somebody at a keyboard would. The picture at its end comes
// when it is done, which is what the browser waits for.
//
//go:embed testdata/harness.html
var harness []byte

// serveHarness serves the playground and the harness.
func serveHarness(t *testing.T, p *playground, done <-chan struct{}, seen func(string)) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", p.handler())
	mux.HandleFunc("/harness", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(harness)
	})
	mux.HandleFunc("/seen", func(_ http.ResponseWriter, req *http.Request) { seen(req.URL.Query().Get("what")) })
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
	return server
}

func TestPageInABrowser(t *testing.T) {
	chromium := browser(t)
	p, err := open(t.Context(), settings{ttl: time.Minute, pause: 100 * time.Millisecond})
	require.NoError(t, err)
	defer p.close()
	done, seen := make(chan struct{}), make(chan string, 100)
	server := serveHarness(t, p, done, func(what string) {
		if what == "done" {
			close(done)
			return
		}
		seen <- what
	})
	console := chromium(t, false, "--window-size=1200,900", "--dump-dom", server.URL+"/harness?play")
	close(seen)
	var all []string
	for s := range seen {
		all = append(all, s)
	}
	assert.Equal(t, []string{
		"5 nodes, 4 clients, 4 stories", "Client A has the lock", "5 keys", "votes of 5 nodes", "Three of five answer",
		"Only two of five answer", "Client B gets no lock", "restarted", "Client C has the lock", "Client B must wait", "suspended", "goes on", "Client B has the lock",
		"no wider than a phone", "story told", "story stopped",
	}, all)
	assert.Empty(t, console)
}

// Pictures to look at are written with PLAYGROUND_PICTURES=folder.
func TestPictures(t *testing.T) {
	folder := os.Getenv("PLAYGROUND_PICTURES")
	if folder == "" {
		t.Skip("PLAYGROUND_PICTURES names no folder")
	}
	chromium := browser(t)
	for name, size := range map[string]string{"desk": "1280,1500", "phone": "500,2300"} {
		for tale, moment := range map[string]string{"suspended": "write is refused", "forgotten": "Two clients have the lock!"} {
			p, err := open(t.Context(), settings{ttl: 8 * time.Second, pause: 2 * time.Second})
			require.NoError(t, err)
			require.NoError(t, p.do("story "+tale))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for v, changed := p.look(); !strings.Contains(v.Log[len(v.Log)-1].Text, moment); v, changed = p.look() {
					<-changed
				}
				time.Sleep(time.Second)
			}()
			server := serveHarness(t, p, done, func(string) {})
			file := filepath.Join(folder, fmt.Sprintf("playground-%s-%s.png", tale, name))
			dark := (tale == "suspended") == (name == "phone")
			chromium(t, dark, "--hide-scrollbars", "--window-size="+size, "--screenshot="+file, server.URL+"/harness")
			p.close()
		}
	}
}

// browser returns how to run Chromium, or ends the test where there is none. The result is what the page wrote to its
// console.
func browser(t *testing.T) func(t *testing.T, dark bool, args ...string) (console []string) {
	t.Helper()
	path := testkit.Chromium(t)
	return func(t *testing.T, dark bool, args ...string) (console []string) {
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
		require.NoError(t, cmd.Run())
		for line := range strings.Lines(stderr.String()) {
			if strings.Contains(line, ":CONSOLE") {
				console = append(console, line)
			}
		}
		return console
	}
}
