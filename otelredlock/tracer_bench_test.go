package otelredlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
)

// BenchmarkTracer is what a lock and its release cost, besides their work, when the sampler drops them.
func BenchmarkTracer(b *testing.B) {
	tel, err := otelredlock.New(
		otelredlock.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))),
		otelredlock.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
		otelredlock.WithClass(classOf),
	)
	require.NoError(b, err)
	resources := []string{"bench:7"}
	b.ReportAllocs()
	for b.Loop() {
		for _, op := range []redlock.Op{redlock.OpLock, redlock.OpUnlock} {
			ctx := tel.Begin(context.Background(), op, resources)
			for range 2 {
				_ = tel.Wants(ctx, redlock.EventDecided)
			}
			tel.End(ctx, redlock.Event{Op: op, Resources: resources, Attempt: 1, Took: time.Millisecond, Held: time.Millisecond})
		}
	}
}
