package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/seed6c881748/redlock/internal/pages"
)

//go:embed page
var files embed.FS

// security lets the page load nothing but its own files.
const security = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// renewEvery is how often the page is told of the state while nothing happens: keys grow older.
const renewEvery = 500 * time.Millisecond

// handler serves the page, its events, and what its buttons do.
func (p *playground) handler() http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // It is embedded.
	}
	mux := http.NewServeMux()
	for pattern, of := range map[string]fs.FS{"GET /": page, "GET /common.css": pages.Files, "GET /common.js": pages.Files} {
		static := http.FileServerFS(of)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Security-Policy", security)
			w.Header().Set("Cache-Control", "no-store")
			static.ServeHTTP(w, req)
		})
	}
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /do", p.serveDo)
	return http.NewCrossOriginProtection().Handler(mux) // Other sites' pages may press no buttons.
}

// serveDo does what the query says, such as /do?what=kill+3.
func (p *playground) serveDo(w http.ResponseWriter, req *http.Request) {
	switch err := p.do(req.URL.Query().Get("what")); { //nolint:contextcheck // What is begun outlives the request.
	case errors.Is(err, errUnknown):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// events sends the state as server-sent events, until the browser goes.
func (p *playground) events(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	for {
		v, changed := p.look()
		data, err := json.Marshal(v)
		if err != nil {
			return
		}
		if _, err = fmt.Fprintf(w, "data: %s\n\n", data); err != nil {
			return
		}
		if err = out.Flush(); err != nil {
			return
		}
		if !sleep(req.Context(), 50*time.Millisecond) { // What happens together is sent together.
			return
		}
		select {
		case <-changed:
		case <-time.After(renewEvery):
		case <-req.Context().Done():
			return
		case <-p.ctx.Done():
			return
		}
	}
}
