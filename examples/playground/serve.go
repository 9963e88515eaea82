package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"
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
	static := http.FileServerFS(page)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Security-Policy", security)
		w.Header().Set("Cache-Control", "no-store")
		static.ServeHTTP(w, req)
	})
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

// A view is all that the page is told, anew whenever something has changed.
type view struct {
	Now        int64        `json:"now"`
	TTL        int64        `json:"ttl"`
	Auto       bool         `json:"auto"`
	Quarantine bool         `json:"quarantine"`
	Nodes      []nodeView   `json:"nodes"`
	Clients    []clientView `json:"clients"`
	Register   registerView `json:"register"`
	Log        []sentence   `json:"log"`
	Spans      []span       `json:"spans"`
	Marks      []mark       `json:"marks"`
}

type nodeView struct {
	Name     string `json:"name"`
	Fault    string `json:"fault"`
	Holder   string `json:"holder"`
	Expires  int64  `json:"expires"`
	Abstains int64  `json:"abstains"` // until when; 0: it does not
}

type clientView struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Suspended bool   `json:"suspended"`
	Kept      bool   `json:"kept"`
	Until     int64  `json:"until"` // of its lock; 0: it has none
	Fence     string `json:"fence"`
}

type registerView struct {
	Writes int    `json:"writes"`
	By     string `json:"by"`
	Fence  string `json:"fence"`
}

// look returns what there is to see now, and a channel that is closed when something happens.
func (p *playground) look() (view, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.st
	st.record()
	v := view{
		Now: p.now(), TTL: p.ttl.Milliseconds(), Auto: p.auto, Quarantine: st.quarantine,
		Log:   append([]sentence{}, p.rec.log...),
		Spans: append([]span{}, p.rec.spans...),
		Marks: append([]mark{}, p.rec.marks...),
	}
	for _, n := range st.nodes {
		nv := nodeView{Name: n.name, Fault: n.fault, Holder: n.holder, Abstains: p.at(n.abstains)}
		if n.holder != "" {
			nv.Expires = p.at(n.expires)
		}
		v.Nodes = append(v.Nodes, nv)
	}
	for _, c := range st.clients {
		cv := clientView{Name: c.name, State: c.state(), Suspended: c.awake != nil, Kept: c.keeping != nil}
		if c.lock != nil {
			cv.Until = p.at(c.lock.Until().Add(time.Millisecond)) // Rounded up.
		}
		if c.fence != 0 {
			cv.Fence = p.fenceText(c.fence)
		}
		v.Clients = append(v.Clients, cv)
	}
	v.Register = registerView{Writes: st.writes, By: st.wrote}
	if seen := st.guard.Seen(); seen != 0 {
		v.Register.Fence = p.fenceText(seen)
	}
	return v, p.rec.changed
}
