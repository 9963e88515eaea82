// Command example is a service that locks, with its metrics for Prometheus and its state as a page.
//
//	go run ./example -listen 127.0.0.1:8080 host:port ...
//
// Metrics are at /metrics, the page at /debug/redlock/.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlockhttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address of /metrics and /debug/redlock/")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *listen, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// classOf is what is before the colon of "invoice:4711".
func classOf(resource string) string {
	class, _, _ := strings.Cut(resource, ":")
	return class
}

// service returns a Redlock over the nodes whose metrics and page the handler serves.
func service(nodes []redlock.Node, opts ...redlock.Option) (*redlock.Redlock, http.Handler, error) {
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return nil, nil, err
	}
	tel, err := otelredlock.New(
		otelredlock.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))),
		otelredlock.WithClass(classOf),
	)
	if err != nil {
		return nil, nil, err
	}
	r, err := redlock.New(nodes, append(opts, redlock.WithTracer(tel))...)
	if err != nil {
		return nil, nil, err
	}
	if err := tel.Observe(r); err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/redlock/", redlockhttp.Handler(r))
	return r, mux, nil
}

func run(ctx context.Context, listen string, addresses []string) error {
	nodes := make([]redlock.Node, len(addresses))
	for i, a := range addresses {
		nodes[i] = redlock.NewNode(a)
	}
	if len(nodes) == 0 {
		return errors.New("give it the addresses of Redis servers, each as host:port")
	}
	r, handler, err := service(nodes)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Printf("http://%s/debug/redlock/ and http://%s/metrics\n", listen, listen)
	for i := range 4 {
		go work(ctx, r, i)
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(ending), r.Close(ending))
}

// work locks one of a few resources again and again.
func work(ctx context.Context, r *redlock.Redlock, worker int) {
	for ctx.Err() == nil {
		resource := []string{fmt.Sprintf("invoice:%d", rand.N(3)), "report:nightly"}[rand.N(2)]
		err := r.Do(ctx, []string{resource}, 10*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
			select {
			case <-time.After(rand.N(8 * time.Second)): // Some of it is extended.
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		}, redlock.WithOwner(fmt.Sprintf("worker %d", worker)), redlock.WithRetryCount(-1))
		if err != nil && ctx.Err() == nil {
			log.Print(err)
		}
	}
}
