package redlockhttp_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
)

// The page is beside those of net/http/pprof, and programs get the same as JSON. On the second one the permits of a
// semaphore that was made with the name "resize" are shown together.
func ExampleHandler() {
	r, err := redlock.New([]redlock.Node{redlock.NewNode("10.0.0.1:6379")})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/redlock/", redlockhttp.Handler(r))
	mux.Handle("/debug/permits/", redlockhttp.Handler(r, redlockhttp.WithSemaphores("resize")))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/redlock/?format=json", nil))
	var state redlockhttp.State
	err = json.Unmarshal(answer.Body.Bytes(), &state)
	fmt.Println(answer.Code, state.Nodes[0].Name, len(state.Held), err)
	// Output: 200 10.0.0.1:6379 0 <nil>
}

// On the port of the probes, for readiness and never for liveness.
func ExampleReady() {
	r, err := redlock.New([]redlock.Node{redlock.NewNode("127.0.0.1:1")}, redlock.WithoutLog()) // Nothing listens there.
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/readyz/locks", redlockhttp.Ready(r))

	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz/locks", nil))
	fmt.Println(answer.Code)
	// Output: 503
}
