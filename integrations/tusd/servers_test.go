package redlocktusd

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/redlock"
)

const base = "/files/"

// newHandler is the part of a server that is the same in the test's process and in others.
func newHandler(folder string, l *Locker) (http.Handler, error) {
	composer := handler.NewStoreComposer()
	filestore.New(folder).UseIn(composer)
	l.UseIn(composer)
	h, err := handler.NewHandler(handler.Config{
		BasePath: base, StoreComposer: composer, RespectForwardedHeaders: true,
		AcquireLockTimeout: time.Minute, NetworkTimeout: time.Hour, // What takes so long has failed.
	})
	return http.StripPrefix(base, h), err
}

// serve starts a server with a Redlock of its own.
func serve(t *testing.T, folder string, cluster *testcluster.Cluster, ttl time.Duration, opts ...redlock.Option) (addr string) {
	t.Helper()
	h, err := newHandler(folder, New(nodetest.Redlock(t, cluster.Addrs()), ttl, opts...))
	require.NoError(t, err)
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// A client uploads a file through a load balancer. Its uploads break off.
type client struct {
	t      *testing.T
	folder string // of the servers
	file   []byte
	url    string // of the upload
}

// balance starts a load balancer that goes on to the next server after every second request: when an
// upload has broken off, the question how far it came and the rest of it go to the same other server.
func balance(t *testing.T, servers ...string) string {
	t.Helper()
	targets := make([]*url.URL, len(servers))
	for i, server := range servers {
		var err error
		targets[i], err = url.Parse(server)
		require.NoError(t, err)
	}
	var requests atomic.Int64
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(targets[int(requests.Add(1)-1)/2%len(targets)])
		r.SetXForwarded()
	}})
	t.Cleanup(s.Close)
	return s.URL
}

func newClient(t *testing.T, folder, target string) *client {
	t.Helper()
	c := &client{t: t, folder: folder, file: make([]byte, 300_000)}
	_, err := rand.NewChaCha8([32]byte{}).Read(c.file)
	require.NoError(t, err)
	res := c.request(http.MethodPost, target+base, nil, "Upload-Length", strconv.Itoa(len(c.file)))
	require.Equal(t, http.StatusCreated, res.StatusCode)
	c.url = res.Header.Get("Location")
	return c
}

// A response is one that was read.
type response struct {
	*http.Response

	body string
}

func (c *client) request(method, target string, body io.Reader, header ...string) response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, target, body)
	require.NoError(c.t, err)
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(c.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	require.NoError(c.t, res.Body.Close())
	return response{res, string(text)}
}

func (c *client) patch(offset int, body io.Reader) response {
	c.t.Helper()
	return c.request(http.MethodPatch, c.url, body,
		"Content-Type", "application/offset+octet-stream", "Upload-Offset", strconv.Itoa(offset))
}

// offset asks how far the upload came.
func (c *client) offset() int {
	c.t.Helper()
	res := c.request(http.MethodHead, c.url, nil)
	require.Equal(c.t, http.StatusOK, res.StatusCode)
	offset, err := strconv.Atoi(res.Header.Get("Upload-Offset"))
	require.NoError(c.t, err)
	return offset
}

// breakOff uploads from offset to the middle of what is left, and then nothing, though the connection
// stays until the client hangs up.
func (c *client) breakOff(offset int) (middle int, answer <-chan response, hangUp func()) {
	c.t.Helper()
	middle = (offset + len(c.file)) / 2
	body, rest := io.Pipe()
	hangUp = func() { _ = rest.Close() }
	c.t.Cleanup(hangUp)
	answers := make(chan response, 1)
	go func() { answers <- c.patch(offset, body) }()
	_, err := rest.Write(c.file[offset:middle])
	require.NoError(c.t, err)
	stored := filepath.Join(c.folder, filepath.Base(c.url))
	require.Eventually(c.t, func() bool {
		info, err := os.Stat(stored)
		return err == nil && info.Size() == int64(middle)
	}, 2*time.Minute, time.Millisecond)
	return middle, answers, hangUp
}

// complete uploads what is left, and compares the whole.
func (c *client) complete(offset int) {
	c.t.Helper()
	res := c.patch(offset, bytes.NewReader(c.file[offset:]))
	require.Equal(c.t, http.StatusNoContent, res.StatusCode, res.body)
	stored, err := os.ReadFile(filepath.Join(c.folder, filepath.Base(c.url)))
	require.NoError(c.t, err)
	require.True(c.t, bytes.Equal(c.file, stored), "%d of %d bytes", len(stored), len(c.file))
}

// resume has an upload break off three times, and come back through the other server.
func (c *client) resume() {
	c.t.Helper()
	offset := 0
	for range 3 {
		middle, answer, hangUp := c.breakOff(offset)
		began := time.Now()
		offset = c.offset()
		c.t.Log("the other server took over after", time.Since(began).Round(time.Millisecond))
		require.Equal(c.t, middle, offset)
		hangUp() // Before that, the balancer does not pass on the answer.
		res := <-answer
		require.Contains(c.t, res.body, handler.ErrUploadInterrupted.Error(), "the server was not asked to stop")
	}
	c.complete(offset)
}

func TestOneServerResumesAnUpload(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	newClient(t, folder, balance(t, serve(t, folder, cluster, time.Hour))).resume() // It needs no extension for that.
}

// Without nodes, a request that was let in ends before its lock does.
func TestARequestEndsBeforeItsLock(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	const ttl = 2 * time.Second
	brief := redlock.WithNodeTimeout(time.Second) // So long does an Unlock wait for nodes that hang.
	one, two := serve(t, folder, cluster, ttl, brief), serve(t, folder, cluster, ttl)
	c := newClient(t, folder, one)
	middle, answer, _ := c.breakOff(0)
	require.NoError(t, cluster.Hang())
	res := <-answer
	require.Contains(t, res.body, handler.ErrUploadInterrupted.Error())
	require.NoError(t, cluster.Resume())
	c.url = two + base + filepath.Base(c.url)
	require.Equal(t, middle, c.offset())
	c.complete(middle)
}

// A thing of the tests, not of the library: the balancer sends requests where it should.
func TestBalance(t *testing.T) {
	t.Parallel()
	var servers []string
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, i) }))
		t.Cleanup(s.Close)
		servers = append(servers, s.URL)
	}
	c, target := &client{t: t}, balance(t, servers...)
	for _, want := range []string{"0", "0", "1", "1", "0"} {
		require.Equal(t, want, c.request(http.MethodGet, target, nil).body)
	}
}
