package fencing_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// childEnv makes this program a writer of the file that it names.
const childEnv = "FILESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := child(path, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testdb.Main(m)
}

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

func TestRedisRefusesBadInput(t *testing.T) {
	t.Parallel()
	for _, start := range redisServers {
		pool := start(t)
		s := openRedis(t, pool)
		require.ErrorContains(t, s.write(1<<53, "x"), "2^53")
		conn := pool.Get()
		_, err := conn.Do("HSET", key, "fence", "none", "value", "v")
		require.NoError(t, err)
		err = s.write(5, "x")
		require.Error(t, err, "a fence of another kind is no reason to write")
		require.NotErrorIs(t, err, s.stale)
		value, err := redis.String(conn.Do("HGET", key, "value"))
		require.NoError(t, err)
		require.Equal(t, "v", value)
		_, err = conn.Do("SET", key, "x")
		require.NoError(t, err)
		require.ErrorContains(t, s.write(5, "x"), "WRONGTYPE")
		require.NoError(t, conn.Close())
	}
}

// send sends a request to a service, without a network in between.
func send(t *testing.T, s *httpservice.Service, method, body string, fences ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), method, "/values/1", strings.NewReader(body))
	req.Header[httpservice.Header] = fences
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

// Every holder reads what it has written, unless a later one has come, so often that a gap would show.
func TestHTTPCheckAndWriteAreOneStep(t *testing.T) {
	t.Parallel()
	s := httpservice.New()
	var wg sync.WaitGroup
	var last atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				fence := strconv.FormatInt(last.Add(1), 10)
				send(t, s, http.MethodPut, fence, fence)
				if w := send(t, s, http.MethodGet, "", fence); w.Code != http.StatusConflict && w.Body.String() != fence {
					t.Errorf("fence %s: %d %s", fence, w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
}

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	s := httpservice.New()
	require.Equal(t, http.StatusNoContent, send(t, s, http.MethodPut, "v", "9007199254740991").Code)
	stale := send(t, s, http.MethodPut, "late", "9007199254740990")
	require.Equal(t, http.StatusConflict, stale.Code)
	require.Equal(t, "9007199254740991", stale.Header().Get(httpservice.Header))
	require.Contains(t, stale.Body.String(), "9007199254740991")

	for _, fences := range [][]string{
		nil,
		{""},
		{"0"},
		{"-1"},
		{"+1"},
		{" 1"},
		{"1.5"},
		{"1e3"},
		{"0x1"},
		{"x"},
		{"9223372036854775808"},
		{"1, 2"},
		{"1", "2"},
	} {
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			w := send(t, s, method, "bad", fences...)
			assert.Equal(t, http.StatusBadRequest, w.Code, "%s %q", method, fences)
			assert.Contains(t, w.Body.String(), httpservice.Header)
		}
	}
	large := strings.Repeat("x", 1<<20+1)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(t, s, http.MethodPut, large, "9007199254740992").Code)
	require.Equal(t, http.StatusMethodNotAllowed, send(t, s, http.MethodDelete, "", "9007199254740992").Code)
	kept := send(t, s, http.MethodGet, "", "9007199254740991")
	require.Equal(t, http.StatusOK, kept.Code, "a refused request has raised the fence")
	require.Equal(t, "v", kept.Body.String())
}

func TestHTTPClient(t *testing.T) {
	t.Parallel()
	s, client, url := openHTTP(t)
	require.NoError(t, s.write(7, "x"))
	require.NoError(t, httpservice.Put(t.Context(), client, url+"0", 3, "y"), "each key has a fence of its own")

	// The 409 of something that knows no fences is none of a later holder's. And net/http repeats a PUT that is redirected
	// as a GET, which writes nothing.
	for code, want := range map[int]string{
		http.StatusConflict: "409", http.StatusMovedPermanently: "redirected", http.StatusFound: "redirected",
		http.StatusSeeOther: "redirected",
	} {
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

// child appends each of its fences to the file, if it is let.
func child(path string, fences []string) error {
	for _, s := range fences {
		fence, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return err
		}
		value, err := filestore.Read(path, fence)
		if err == nil {
			err = filestore.Write(path, fence, append(value, s+"\n"...))
		}
		if err != nil && !errors.Is(err, filestore.ErrStale) {
			return err
		}
	}
	return nil
}

// Several processes write one file. Each of them is new, so that the fence can only be in the file. The value is the
// list of all accepted fences.
func TestFileOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	const processes, writes = 4, 25
	s, path := openFile(t)
	self, err := os.Executable()
	require.NoError(t, err)
	children, output := make([]*exec.Cmd, processes), make([]strings.Builder, processes)
	largest := int64(0)
	for i := range children {
		var args []string
		for _, fence := range someFences(uint64(i), writes) {
			largest = max(largest, fence)
			args = append(args, strconv.FormatInt(fence, 10))
		}
		children[i] = exec.CommandContext(t.Context(), self, args...)
		children[i].Env = append(os.Environ(), childEnv+"="+path)
		children[i].Stderr = &output[i]
		require.NoError(t, children[i].Start())
	}
	for i, c := range children {
		require.NoError(t, c.Wait(), "%s", &output[i])
	}
	value, err := s.read(largest)
	require.NoError(t, err)
	var accepted []int64
	for line := range strings.Lines(value) {
		fence, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		require.NoError(t, err)
		accepted = append(accepted, fence)
	}
	require.Less(t, len(accepted), processes*writes, "none was refused")
	require.True(t, slices.IsSorted(accepted), "%v", accepted)
	require.Equal(t, largest, accepted[len(accepted)-1])
}

func TestFileContents(t *testing.T) {
	t.Parallel()
	s, path := openFile(t)
	for _, want := range []string{"", "\n", "1\n2\n", "a\x00b"} {
		require.NoError(t, s.write(5, want))
		s.requireStored(t, want, 5)
	}
	// What a process leaves that dies while it writes.
	require.NoError(t, os.WriteFile(path+".tmp", []byte("6\nhalf of a very long va"), 0o600))
	s.requireStored(t, "a\x00b", 5)
	require.NoError(t, s.write(6, "new"))
	s.requireStored(t, "new", 6)

	for _, content := range []string{"", "5", "x\nvalue", "\nvalue", "0\nvalue", "-1\nvalue", "5 \nvalue"} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		err := s.write(9, "new")
		require.ErrorContains(t, err, "no fence", "%q", content)
		require.NotErrorIs(t, err, s.stale)
		_, err = s.read(9)
		require.Error(t, err)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(left))
	}
	require.ErrorIs(t, filestore.Write(filepath.Join(t.TempDir(), "none", "file"), 1, nil), os.ErrNotExist)
}
