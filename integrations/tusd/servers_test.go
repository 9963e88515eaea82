package redlocktusd

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/seed6c881748/redlock/integrations/internal/nodetest"
	"github.com/seed6c881748/redlock/internal/testcluster"
)

const base = "/files/"

// serve starts a server with a Redlock of its own.
func serve(t *testing.T, folder string, cluster *testcluster.Cluster) (addr string) {
	t.Helper()
	log.SetOutput(io.Discard) // Tusd logs each request.
	composer := handler.NewStoreComposer()
	filestore.New(folder).UseIn(composer)
	New(nodetest.Redlock(t, cluster.Addrs()), 6*time.Second).UseIn(composer)
	h, err := handler.NewHandler(handler.Config{
		BasePath: base, StoreComposer: composer,
		AcquireLockTimeout: time.Minute, NetworkTimeout: time.Hour, // What takes so long has failed.
	})
	require.NoError(t, err)
	s := httptest.NewServer(http.StripPrefix(base, h))
	t.Cleanup(s.Close)
	return s.URL
}

// A client uploads a file. Its uploads break off.
type client struct {
	t      *testing.T
	folder string // of the servers
	file   []byte
	id     string // of the upload
}

func newClient(t *testing.T, folder, server string) *client {
	t.Helper()
	c := &client{t: t, folder: folder}
	for i := range 50_000 {
		c.file = fmt.Appendf(c.file, "%d ", i)
	}
	res := c.request(http.MethodPost, server, nil, "Upload-Length", strconv.Itoa(len(c.file)))
	require.Equal(t, http.StatusCreated, res.StatusCode)
	c.id = filepath.Base(res.Header.Get("Location"))
	return c
}

// A response is one that was read.
type response struct {
	*http.Response

	body string
}

// request asks a server about the upload, or for a new one.
func (c *client) request(method, server string, body io.Reader, header ...string) response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, server+base+c.id, body)
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

func (c *client) patch(server string, offset int, body io.Reader) response {
	c.t.Helper()
	return c.request(http.MethodPatch, server, body,
		"Content-Type", "application/offset+octet-stream", "Upload-Offset", strconv.Itoa(offset))
}

// offset asks how far the upload came.
func (c *client) offset(server string) int {
	c.t.Helper()
	res := c.request(http.MethodHead, server, nil)
	require.Equal(c.t, http.StatusOK, res.StatusCode)
	offset, err := strconv.Atoi(res.Header.Get("Upload-Offset"))
	require.NoError(c.t, err)
	return offset
}

// breakOff uploads from offset to the middle of what is left, and then nothing, though the connection stays.
func (c *client) breakOff(server string, offset int) (middle int, answer <-chan response) {
	c.t.Helper()
	middle = (offset + len(c.file)) / 2
	body, rest := io.Pipe()
	c.t.Cleanup(func() { _ = rest.Close() })
	answers := make(chan response, 1)
	go func() { answers <- c.patch(server, offset, body) }()
	_, err := rest.Write(c.file[offset:middle])
	require.NoError(c.t, err)
	stored := filepath.Join(c.folder, c.id)
	require.Eventually(c.t, func() bool {
		info, err := os.Stat(stored)
		return err == nil && info.Size() == int64(middle)
	}, 2*time.Minute, time.Millisecond)
	return middle, answers
}

// complete uploads what is left, and compares the whole.
func (c *client) complete(server string, offset int) {
	c.t.Helper()
	res := c.patch(server, offset, bytes.NewReader(c.file[offset:]))
	require.Equal(c.t, http.StatusNoContent, res.StatusCode, res.body)
	stored, err := os.ReadFile(filepath.Join(c.folder, c.id))
	require.NoError(c.t, err)
	require.True(c.t, bytes.Equal(c.file, stored), "%d of %d bytes", len(stored), len(c.file))
}

// An upload that breaks off three times goes on at the other server each time.
func TestServersResumeAnUpload(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	servers := []string{serve(t, folder, cluster), serve(t, folder, cluster)}
	c, offset := newClient(t, folder, servers[0]), 0
	for i := range 3 {
		middle, answer := c.breakOff(servers[i%2], offset)
		offset = c.offset(servers[(i+1)%2])
		require.Equal(t, middle, offset)
		res := <-answer
		require.Contains(t, res.body, handler.ErrUploadInterrupted.Error(), "the server was not asked to stop")
	}
	c.complete(servers[0], offset)
}
