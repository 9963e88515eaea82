package otelredlock_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
)

// A program has exporters in place of none: sdktrace.WithBatcher, sdkmetric.WithReader.
func Example() {
	ctx := context.Background()
	tracers, meters := sdktrace.NewTracerProvider(), sdkmetric.NewMeterProvider()

	telemetry, err := otelredlock.New(
		otelredlock.WithTracerProvider(tracers),
		otelredlock.WithMeterProvider(meters),
		otelredlock.WithClass(func(resource string) string { // "invoice" for "invoice:4711".
			class, _, _ := strings.Cut(resource, ":")
			return class
		}),
	)
	if err != nil {
		log.Fatal(err)
	}
	r, err := redlock.New([]redlock.Node{redlock.NewNode("10.0.0.1:6379")}, redlock.WithTracer(telemetry))
	if err != nil {
		log.Fatal(err)
	}
	if err := telemetry.Observe(r); err != nil { // Gauges and counters, read when they are collected.
		log.Fatal(err)
	}

	// ... locks ...

	// The Redlock first: what it still does is traced. Then what is on its way to the exporters.
	fmt.Println(r.Close(ctx), tracers.Shutdown(ctx), meters.Shutdown(ctx), telemetry.Close())
	// Output: <nil> <nil> <nil> <nil>
}
