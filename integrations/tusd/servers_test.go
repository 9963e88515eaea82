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

// request has a server answer, and returns the answer with its body.
func request(t *testing.T, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	require.NoError(t, err)
	req.Header.Set("Tus-Resumable", "1.0.0")
	req.Header.Set("Content-Type", "application/offset+octet-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res, string(text)
}

// An upload that breaks off three times, though its connection stays, goes on at the other server each time.
func TestServersResumeAnUpload(t *testing.T) {
	t.Parallel()
	cluster, folder := testcluster.RunEmbedded(t, 3), t.TempDir()
	servers := []string{serve(t, folder, cluster), serve(t, folder, cluster)}
	var file []byte
	for i := range 50_000 {
		file = fmt.Appendf(file, "%d ", i)
	}
	created, _ := request(t, http.MethodPost, servers[0]+base, nil, "Upload-Length", strconv.Itoa(len(file)))
	require.Equal(t, http.StatusCreated, created.StatusCode)
	id := filepath.Base(created.Header.Get("Location"))
	offset := "0"
	for i := range 3 {
		begin, _ := strconv.Atoi(offset)
		middle := (begin + len(file)) / 2
		body, rest := io.Pipe()
		answer := make(chan string, 1)
		go func() {
			defer close(answer)
			//nolint:testifylint // If it fails there is no answer, which is looked for.
			_, text := request(t, http.MethodPatch, servers[i%2]+base+id, body, "Upload-Offset", offset)
			answer <- text
		}()
		_, err := rest.Write(file[begin:middle])
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			info, err := os.Stat(filepath.Join(folder, id))
			return err == nil && info.Size() == int64(middle)
		}, 2*time.Minute, time.Millisecond)
		head, _ := request(t, http.MethodHead, servers[(i+1)%2]+base+id, nil)
		require.Contains(t, <-answer, handler.ErrUploadInterrupted.Error(), "the server was not asked to stop")
		offset = head.Header.Get("Upload-Offset")
		require.Equal(t, strconv.Itoa(middle), offset)
		require.NoError(t, rest.Close())
	}
	begin, _ := strconv.Atoi(offset)
	res, text := request(t, http.MethodPatch, servers[0]+base+id, bytes.NewReader(file[begin:]), "Upload-Offset", offset)
	require.Equal(t, http.StatusNoContent, res.StatusCode, text)
	stored, err := os.ReadFile(filepath.Join(folder, id))
	require.NoError(t, err)
	require.True(t, bytes.Equal(file, stored), "%d of %d bytes", len(stored), len(file))
}
