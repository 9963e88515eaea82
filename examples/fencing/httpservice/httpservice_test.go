package httpservice

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
)

// start serves a Service, and returns the URL of a value as well.
func start(t *testing.T) (s *Service, client *http.Client, url string) {
	t.Helper()
	s = New()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.Client(), server.URL + "/values/1"
}

func TestRefusesEarlierHolders(t *testing.T) {
	t.Parallel()
	fencetest.Run(t, func(t *testing.T) fencetest.Store {
		s, client, url := start(t)
		return fencetest.Store{
			Write: func(fence int64, value string) error { return Put(t.Context(), client, url, fence, value) },
			Read:  func(fence int64) (string, error) { return Get(t.Context(), client, url, fence) },
			Stored: func() (string, int64, error) {
				return s.values["1"].text, s.values["1"].guard.Seen(), nil
			},
			Stale: ErrStale,
		}
	})
}

// TestCheckAndWriteAreOneStep has every holder read what it has written, unless a later
// one has come: without a network in between, and so often that a gap would show.
func TestCheckAndWriteAreOneStep(t *testing.T) {
	t.Parallel()
	s := New()
	send := func(method, fence string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), method, "/values/1", strings.NewReader(fence))
		req.Header.Set(Header, fence)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		return w
	}
	var wg sync.WaitGroup
	var last atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				fence := strconv.FormatInt(last.Add(1), 10)
				send(http.MethodPut, fence)
				if w := send(http.MethodGet, fence); w.Code != http.StatusConflict && w.Body.String() != fence {
					t.Errorf("fence %s: %d %s", fence, w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
}

func TestKeysHaveFencesOfTheirOwn(t *testing.T) {
	t.Parallel()
	_, client, url := start(t)
	require.NoError(t, Put(t.Context(), client, url, 7, "x"))
	require.NoError(t, Put(t.Context(), client, url+"0", 3, "y"))
}

func TestGetOfNothingRemembersTheFence(t *testing.T) {
	t.Parallel()
	_, client, url := start(t)
	_, err := Get(t.Context(), client, url, 5)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, Put(t.Context(), client, url, 4, "x"), ErrStale)
	require.NoError(t, Put(t.Context(), client, url, 5, "y"))
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := New()
	send := func(method, path, body string, fences ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		req.Header[Header] = fences
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		return w
	}
	require.Equal(t, http.StatusNoContent, send(http.MethodPut, "/values/1", "v", "9007199254740991").Code)
	stale := send(http.MethodPut, "/values/1", "late", "9007199254740990")
	require.Equal(t, http.StatusConflict, stale.Code)
	require.Equal(t, "9007199254740991", stale.Header().Get(Header))
	require.Contains(t, stale.Body.String(), "9007199254740991")
	require.Equal(t, http.StatusConflict, send(http.MethodGet, "/values/1", "", "1").Code)

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
			w := send(method, "/values/1", "bad", fences...)
			assert.Equal(t, http.StatusBadRequest, w.Code, "%s %q", method, fences)
			assert.Contains(t, w.Body.String(), Header)
		}
	}
	large := strings.Repeat("x", maxValue+1)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(http.MethodPut, "/values/1", large, "9007199254740992").Code)
	require.Equal(t, "v", s.values["1"].text)
	require.Equal(t, int64(9007199254740991), s.values["1"].guard.Seen(), "a refused request has raised the fence")
	require.Equal(t, http.StatusMethodNotAllowed, send(http.MethodDelete, "/values/1", "", "9007199254740992").Code)
}

// TestOtherConflicts has the 409 of something that knows no fences.
func TestOtherConflicts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
	}))
	t.Cleanup(server.Close)
	err := Put(t.Context(), server.Client(), server.URL, 1, "x")
	require.ErrorContains(t, err, "409")
	require.NotErrorIs(t, err, ErrStale)
}

// net/http repeats a PUT that is redirected as a GET, which writes nothing.
func TestARedirectedPutIsNoSuccess(t *testing.T) {
	backend := httptest.NewServer(New())
	defer backend.Close()
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther} {
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, backend.URL+r.URL.Path, code)
		}))
		require.NoError(t, Put(t.Context(), http.DefaultClient, backend.URL+"/values/k", 5, "old"))
		err := Put(t.Context(), http.DefaultClient, front.URL+"/values/k", 5, "new")
		require.ErrorContains(t, err, "redirected")
		front.Close()
	}
}
