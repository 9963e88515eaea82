package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/test/testkit"
)

func TestServe(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", 5*time.Second, out) }()
	line, err := bufio.NewReader(in).ReadString('\n')
	require.NoError(t, err)
	_, address, _ := strings.Cut(line, "Open ")
	address, _, _ = strings.Cut(address, " in a browser")
	require.True(t, strings.HasPrefix(address, "http://127.0.0.1:"), line)

	events := request(t, http.MethodGet, address+"/events", "")
	require.Equal(t, "text/event-stream", events.Header.Get("Content-Type"))
	lines := bufio.NewReader(events.Body)
	for seen := (view{}); len(seen.Log) < 2 || !strings.Contains(seen.Log[1].Text, "Node 3 was killed"); {
		text, err := lines.ReadString('\n')
		require.NoError(t, err)
		if data, found := strings.CutPrefix(text, "data: "); found {
			require.NoError(t, json.Unmarshal([]byte(data), &seen))
			require.Len(t, seen.Nodes, 5)
			require.Equal(t, http.StatusNoContent, request(t, http.MethodPost, address+"/do?what=kill+3", "").StatusCode)
		}
	}
	for _, file := range []string{"/", "/page.js", "/lanes.js", "/style.css"} {
		page := request(t, http.MethodGet, address+file, "")
		assert.Equal(t, http.StatusOK, page.StatusCode, file)
		assert.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
	}
	assert.Equal(t, http.StatusBadRequest, request(t, http.MethodPost, address+"/do?what=kill+6", "").StatusCode)
	assert.Equal(t, http.StatusNotFound, request(t, http.MethodGet, address+"/do?what=kill+3", "").StatusCode)
	assert.Equal(t, http.StatusForbidden, request(t, http.MethodPost, address+"/do?what=kill+4", "https://example.com").StatusCode)

	cancel()
	require.NoError(t, <-ended)
	require.ErrorContains(t, run(t.Context(), "127.0.0.1:0", time.Millisecond, out), "it takes 1s to 1m")
	require.ErrorContains(t, run(t.Context(), "nowhere", time.Second, out), "nowhere")
}

func request(t *testing.T, method, url, origin string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	req.Header.Set("Origin", origin)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// harness has the page in a frame, presses its buttons, and tells what it sees.
//
//go:embed testdata/harness.html
var harness []byte

func TestPageInABrowser(t *testing.T) {
	chromium := testkit.Chromium(t)
	p, err := open(t.Context(), time.Minute)
	require.NoError(t, err)
	defer p.close()
	done, mux := make(chan struct{}), http.NewServeMux()
	mux.Handle("/", p.handler())
	mux.HandleFunc("/harness", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(harness) })
	mux.HandleFunc("/done", func(http.ResponseWriter, *http.Request) { close(done) })
	mux.HandleFunc("/picture", func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-done:
		case <-req.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer server.CloseClientConnections()
	dom, console := chromium(t, false, "--window-size=1200,900", "--dump-dom", server.URL+"/harness?play")
	assert.Contains(t, dom, "<output>"+strings.Join([]string{
		"5 nodes, 4 clients", "buttons as large as a finger", "Client A has the lock", "5 keys", "votes of 5 nodes", "Three of five answer",
		"Two of five answer", "Client B gets no lock", "restarted", "Client C has the lock", "Client B must wait", "suspended", "goes on", "Client B has the lock",
		"no wider than a phone", "buttons as large as a finger there",
	}, "|")+"|</output>")
	assert.Empty(t, console)
}
