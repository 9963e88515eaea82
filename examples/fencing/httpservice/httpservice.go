// Package httpservice is a service that stores values, and refuses the requests of
// earlier holders of a value's lock: every request has its lock's fence in the header
// Fencing-Token.
//
//	PUT /values/{key}   204, or 409 if a larger fence has been used for this key
//	GET /values/{key}   200, 404 if there is no value, or 409
//
// 409 has the largest fence seen in Fencing-Token. A missing or malformed one is 400: to
// let requests without a fence pass would be to have none. Clients must be trusted:
// whoever makes up a large fence locks out all others.
package httpservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/seed6c881748/redlock/redlock"
)

// Header is the name of the header that has the fence, an integer of 1 or more.
const Header = "Fencing-Token"

const maxValue = 1 << 20

// ErrStale is matched by the error of a holder that comes after a later one. Its lock
// has ended, and it must give up.
var ErrStale = errors.New("httpservice: a later holder has written")

// ErrNotFound is matched by the error of Get if there is no value.
var ErrNotFound = errors.New("httpservice: no such value")

// A Service is the server. It keeps values and fences in memory, and loses both at
// the same time. One that stores its values must store each one's fence with it, and
// begin with [redlock.NewGuard] of what is stored; two processes that serve one
// database must have the database check, as package sqlstore does.
//
// It is safe for concurrent use.
type Service struct {
	mux http.ServeMux

	mu     sync.Mutex
	values map[string]*value
}

// A value belongs to its guard: it is used inside Do only. It stays as long as the
// Service, as a key without a value has a fence, too.
type value struct {
	guard redlock.Guard
	text  string
	found bool
}

// New returns a Service without values.
func New() *Service {
	s := &Service{values: make(map[string]*value)}
	s.mux.HandleFunc("PUT /values/{key}", s.serve)
	s.mux.HandleFunc("GET /values/{key}", s.serve)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Service) ServeHTTP(w http.ResponseWriter, req *http.Request) { s.mux.ServeHTTP(w, req) }

// serve answers both. A GET is for holders that will write what they compute from the value: it
// takes their fence as well, so that no earlier one changes the value after it was read.
func (s *Service) serve(w http.ResponseWriter, req *http.Request) {
	fence, err := fenceOf(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// The body comes first: nobody should wait for a slow client inside Do.
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxValue))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	} else if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v, isWrite := s.value(req), req.Method == http.MethodPut
	var text string
	var found bool
	// The check and the write are one step. All that is written belongs in there.
	err = v.guard.Do(fence, func() error {
		if isWrite {
			v.text, v.found = string(body), true
		}
		text, found = v.text, v.found
		return nil
	})
	switch {
	case errors.Is(err, redlock.ErrFenced):
		w.Header().Set(Header, strconv.FormatInt(v.guard.Seen(), 10))
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case isWrite:
		w.WriteHeader(http.StatusNoContent)
	case !found:
		http.Error(w, "no such value", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, text) // Whoever has gone needs no answer.
	}
}

func (s *Service) value(req *http.Request) *value {
	key := req.PathValue("key")
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.values[key]
	if v == nil {
		v = new(value)
		s.values[key] = v
	}
	return v
}

// fenceOf reads the header, which must be there once: of two fences nobody knows which
// one is meant.
func fenceOf(req *http.Request) (int64, error) {
	values := req.Header.Values(Header)
	if len(values) != 1 {
		return 0, fmt.Errorf("%s: wanted once, got %d times", Header, len(values))
	}
	fence, err := strconv.ParseUint(values[0], 10, 63) // No sign.
	if err != nil || fence == 0 {
		return 0, fmt.Errorf("%s: %q: must be an integer of 1 or more", Header, values[0])
	}
	return int64(fence), nil
}

// Put stores a value at a URL of a Service. It returns an error that matches ErrStale
// if a larger fence has been used for it.
//
// After another error, such as a lost connection, the value may have been stored. To
// call Put again with the same fence and value is safe. Not so to
// write another value: the first request may still be on its way, and lands with an
// equal fence. Take the lock again for that.
func Put(ctx context.Context, client *http.Client, url string, fence int64, value string) error {
	_, err := do(ctx, client, http.MethodPut, url, fence, value)
	return err
}

// Get returns the value at a URL of a Service, for a holder that will write what it
// computes from it. No earlier holder can change the value any more. Errors are those
// of Put, and one that matches ErrNotFound.
func Get(ctx context.Context, client *http.Client, url string, fence int64) (string, error) {
	return do(ctx, client, http.MethodGet, url, fence, "")
}

func do(ctx context.Context, client *http.Client, method, url string, fence int64, body string) (string, error) {
	if fence < 1 {
		return "", fmt.Errorf("httpservice: fence %d: must be at least 1", fence)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set(Header, strconv.FormatInt(fence, 10))
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxValue))
	if err != nil {
		return "", err
	}
	seen := resp.Header.Get(Header)
	switch {
	case resp.Request.Method != method: // After a redirect, net/http may ask again with GET.
		return "", fmt.Errorf("httpservice: %s was redirected: %s", method, resp.Request.URL)
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusNoContent:
		return string(answer), nil
	case resp.StatusCode == http.StatusConflict && seen != "": // Not the 409 of something in between.
		return "", fmt.Errorf("%w: fence %d is behind %s", ErrStale, fence, seen)
	case resp.StatusCode == http.StatusNotFound && method == http.MethodGet:
		return "", fmt.Errorf("%w: %s", ErrNotFound, url)
	}
	return "", fmt.Errorf("httpservice: %s: %s", resp.Status, strings.TrimSpace(string(answer)))
}
