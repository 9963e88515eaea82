package redlockhttp

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed6c881748/redlock/redlock"
)

//go:embed page.html
var page []byte

// security says what the page may load and who may show it: nothing but itself, and nobody in a frame. Names of
// resources come from users; even if one got past the escaping, nothing could be sent away.
const security = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler returns a handler that shows r, at whatever path it is mounted; see the package's
// documentation for what it shows. It answers GET and HEAD, everything else with 405. It is safe for
// concurrent use, does no I/O to the nodes, and may be used before r has connected and after
// r.Close. It panics if r or an Option is nil.
func Handler(r *redlock.Redlock, opts ...Option) http.Handler {
	if r == nil {
		panic("redlockhttp: nil Redlock")
	}
	h := handler{r, make(map[string]slot)}
	for _, opt := range opts {
		if opt == nil {
			panic("redlockhttp: nil Option")
		}
		opt(&h)
	}
	return h
}

type handler struct {
	r     *redlock.Redlock
	slots map[string]slot // by resource: the slots of the named semaphores
}

func (h handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	head := w.Header()
	if !shows(w, req) {
		return
	}
	var body []byte
	state := h.look(query{filter: req.URL.Query().Get("filter"), sort: req.URL.Query().Get("sort")})
	head.Set("Vary", "Accept")
	if wantsJSON(req) {
		head.Set("Content-Type", "application/json")
		var err error
		if body, err = json.Marshal(state); err != nil {
			http.Error(w, "redlock: "+err.Error(), http.StatusInternalServerError)
			return
		}
	} else {
		head.Set("Content-Type", "text/html; charset=utf-8")
		head.Set("Content-Security-Policy", security)
		body = withData(state)
	}
	head.Set("Content-Length", strconv.Itoa(len(body)))
	if req.Method == http.MethodGet {
		_, _ = w.Write(body) // An error means that the client has gone.
	}
}

// shows sets the headers of all answers, and answers requests that are not a GET or HEAD; it returns false then.
func shows(w http.ResponseWriter, req *http.Request) bool {
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return true
	}
	head.Set("Allow", "GET, HEAD")
	http.Error(w, "redlock: this page only shows: GET or HEAD", http.StatusMethodNotAllowed)
	return false
}

// wantsJSON reports whether the request asks for JSON: by its query, or by naming it as acceptable
// and not HTML, as browsers do.
func wantsJSON(req *http.Request) bool {
	if format := req.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	accept := strings.Join(req.Header.Values("Accept"), ",")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// dataMark is where the page gets its first data, so that it is complete at once, and a saved copy stays readable.
var dataMark = []byte("/*DATA*/null")

// withData returns the page with a state in it. json.Marshal escapes <, > and &, so that nothing
// in it can end the script.
func withData(s State) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		return page // The page asks for the data again.
	}
	return bytes.Replace(page, dataMark, data, 1)
}
