// Playground shows in a browser what a lock over five independent Redis masters does, while you kill and freeze its
// nodes and suspend its clients:
//
//	go run ./examples/playground
//
// writes the address of its page, which only this machine can reach. It brings five in-memory nodes of its own and
// needs nothing but Go. Locks last for some seconds, so that one can watch them end.
//
// Four clients, each with a Redlock of its own as four processes have, want one resource. What they do is in client.go,
// and reads like a program of yours. What happens to nodes is in node.go. What the page is told is in serve.go, how it
// shows that in page/page.js (cards) and page/lanes.js; what has happened is in record.go and hear.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	examples "github.com/seed6c881748/redlock/examples/internal/stage"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where the page is served; port 0 takes a free one")
	ttl := flag.Duration("ttl", 8*time.Second, "how long a lock lasts")
	flag.Parse()
	if err := run(examples.Interruptible(), *addr, *ttl, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

// run serves the page until ctx ends.
func run(ctx context.Context, addr string, ttl time.Duration, out io.Writer) error {
	if ttl < time.Second || ttl > time.Minute {
		return fmt.Errorf("a ttl of %v: it takes 1s to 1m", ttl)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	p, err := open(ctx, ttl)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer p.close()
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	_, _ = fmt.Fprintf(out, "Open http://%s in a browser. Ctrl-C ends it.\n", listener.Addr())
	if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
