package fencing_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/filestore"
	"github.com/seed6c881748/redlock/examples/fencing/httpservice"
	"github.com/seed6c881748/redlock/examples/fencing/redisstore"
	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/test/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

const key = "value:1"

// redisServers are an in-memory server and a real one.
var redisServers = map[string]func(t *testing.T) *redis.Pool{
	"Embedded": func(t *testing.T) *redis.Pool { return testcluster.RunEmbedded(t, 1).Nodes[0].Pool() },
	"Redis":    func(t *testing.T) *redis.Pool { return testcluster.RunServers(t, 1).Nodes[0].Pool() },
}

func openRedis(t *testing.T, pool *redis.Pool) store {
	t.Helper()
	return store{
		write: func(fence int64, value string) error { return redisstore.Write(t.Context(), pool, key, fence, value) },
		read:  func(fence int64) (string, error) { return redisstore.Read(t.Context(), pool, key, fence) },
		stale: redisstore.ErrStale,
	}
}

func openHTTP(t *testing.T) (s store, client *http.Client, url string) {
	t.Helper()
	server := httptest.NewServer(httpservice.New())
	t.Cleanup(server.Close)
	client, url = server.Client(), server.URL+"/values/1"
	return store{
		write: func(fence int64, value string) error { return httpservice.Put(t.Context(), client, url, fence, value) },
		read:  func(fence int64) (string, error) { return httpservice.Get(t.Context(), client, url, fence) },
		stale: httpservice.ErrStale,
	}, client, url
}

func openFile(t *testing.T) (s store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := filestore.Write(filepath.Join(t.TempDir(), "try"), 1, nil); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	return store{
		write: func(fence int64, value string) error { return filestore.Write(path, fence, []byte(value)) },
		read: func(fence int64) (string, error) {
			value, err := filestore.Read(path, fence)
			return string(value), err
		},
		stale: filestore.ErrStale,
	}, path
}

func TestRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	for name, start := range redisServers {
		t.Run(name, func(t *testing.T) {
			keepsOut(t, func(t *testing.T) store { return openRedis(t, start(t)) })
		})
	}
	t.Run("HTTP", func(t *testing.T) {
		keepsOut(t, func(t *testing.T) store { s, _, _ := openHTTP(t); return s })
	})
	t.Run("File", func(t *testing.T) {
		keepsOut(t, func(t *testing.T) store { s, _ := openFile(t); return s })
	})
}

// Who has found nothing has a fence, too.
func TestAReadOfNothingRemembersTheFence(t *testing.T) {
	t.Parallel()
	requireRemembered := func(s store, nothing error) {
		_, err := s.read(5)
		require.ErrorIs(t, err, nothing)
		require.ErrorIs(t, s.write(4, "1"), s.stale)
		require.NoError(t, s.write(5, ""))
		s.requireStored(t, "", 5)
	}
	for _, start := range redisServers {
		requireRemembered(openRedis(t, start(t)), redis.ErrNil)
	}
	s, _, _ := openHTTP(t)
	requireRemembered(s, httpservice.ErrNotFound)
	s, _ = openFile(t)
	requireRemembered(s, nil)
}

// A request without one fence is refused, and raises none. A 409 without a fence is none of the service's; and net/http
// repeats a PUT that is redirected as a GET, which writes nothing.
func TestHTTPRefuses(t *testing.T) {
	t.Parallel()
	s, client, url := openHTTP(t)
	require.NoError(t, s.write(7, "v"))
	require.NoError(t, httpservice.Put(t.Context(), client, url+"0", 3, "y"), "each key has a fence of its own")
	for _, fences := range [][]string{nil, {""}, {"0"}, {"+9"}, {"1.5"}, {"9223372036854775808"}, {"8, 9"}, {"8", "9"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("bad"))
		require.NoError(t, err)
		req.Header[httpservice.Header] = fences
		answer, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusBadRequest, answer.StatusCode, "%q", fences)
	}
	require.ErrorContains(t, s.write(9, strings.Repeat("x", 1<<20+1)), "413")
	s.requireStored(t, "v", 7)

	for code, want := range map[int]string{http.StatusConflict: "409", http.StatusFound: "redirected"} {
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", url)
			w.WriteHeader(code)
		}))
		err := httpservice.Put(t.Context(), client, front.URL, 7, "z")
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, httpservice.ErrStale)
		front.Close()
	}
}

// A file that begins with no fence is an error, and what a process leaves that dies while it writes is none.
func TestFileContents(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	require.NoError(t, s.write(5, "a\n\x00b"))
	require.NoError(t, os.WriteFile(path+".tmp", []byte("6\nhalf of a very long va"), 0o600))
	s.requireStored(t, "a\n\x00b", 5)
	require.NoError(t, s.write(6, "new"))
	s.requireStored(t, "new", 6)
	for _, content := range []string{"", "5", "\nvalue", "0\nvalue", "5 \nvalue"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.ErrorContains(t, s.write(9, "new"), "no fence", "%q", content)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(left))
	}
}
