package redlockhttp

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/seed6c881748/redlock/redlock"
)

// Ready returns a handler for a readiness probe: 200 if a quorum of nodes would vote, as [redlock.Redlock.Ready]
// says, else 503, also while a quorum is in quarantine and after r.Close. The body is text that names each node
// which gives no vote, and why, without credentials. It answers GET and HEAD, everything else with 405, and is
// safe for concurrent use. It panics if r is nil.
//
// Never make it a liveness probe: when nodes are down, that would restart all processes, which cures nothing and
// ends the locks that they hold. It shows the nodes' names and error texts, so keep it on the port of the probes.
// Until the nodes are connected it takes up to the connect timeout: give the probe a second more.
func Ready(r *redlock.Redlock) http.Handler {
	if r == nil {
		panic("redlockhttp: nil Redlock")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !shows(w, req) {
			return
		}
		status, body := http.StatusOK, "ready\n"
		if err := r.Ready(req.Context()); err != nil {
			status, body = http.StatusServiceUnavailable, err.Error()+"\n"
		} else {
			for _, n := range r.Stats().Nodes {
				if node := nodeOf(n); node.State != "up" {
					body += strings.TrimSuffix(node.Name+" is "+node.State+": "+node.Error, ": ") + "\n"
				}
			}
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		if req.Method == http.MethodGet {
			_, _ = w.Write([]byte(body)) // An error means that the client has gone.
		}
	})
}
