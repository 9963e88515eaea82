package otelredlock_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed6c881748/redlock/internal/testcluster"
	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/test/testkit"
)

// BenchmarkCost has 64 goroutines lock and unlock, each a key of its own on five real servers: with
// nothing, with metrics and a sampler that drops every trace, and with one that keeps every hundredth.
// The three take turns, since the speed of a machine changes; it reports the medians of each, and what
// the others keep of the first one's throughput. It is to be at least 0.90 for a sampler that drops.
//
//	go test -run '^$' -bench Cost -benchtime 1x ./otelredlock
func BenchmarkCost(b *testing.B) {
	const turns, turn = 15, time.Second
	c := testcluster.RunServers(b, 5)
	with := []struct {
		name    string
		sampler sdktrace.Sampler // nil: nothing at all
		r       *redlock.Redlock
		rates   []float64
	}{{name: "none"}, {name: "dropped", sampler: sdktrace.NeverSample()}, {name: "hundredth", sampler: sdktrace.TraceIDRatioBased(0.01)}}
	for i := range with {
		with[i].r = redlockWith(b, c, with[i].sampler)
	}
	for b.Loop() {
		for range turns {
			for i := range with {
				with[i].rates = append(with[i].rates, throughput(b, with[i].r, turn))
			}
		}
	}
	median := func(rates []float64) float64 { return slices.Sorted(slices.Values(rates))[len(rates)/2] }
	for _, w := range with {
		b.ReportMetric(median(w.rates), w.name+"-locks/s")
		if w.sampler != nil {
			shares := make([]float64, len(w.rates))
			for i := range shares {
				shares[i] = w.rates[i] / with[0].rates[i]
			}
			b.ReportMetric(median(shares), w.name+"-share")
		}
		b.ReportMetric(float64(w.r.Stats().EventsDropped), w.name+"-events-dropped")
	}
}

func redlockWith(b *testing.B, c *testcluster.Cluster, sampler sdktrace.Sampler) *redlock.Redlock {
	b.Helper()
	var opts []redlock.Option
	var tel *otelredlock.Telemetry
	if sampler != nil {
		var err error
		tel, err = otelredlock.New(
			otelredlock.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler))),
			otelredlock.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))),
			otelredlock.WithClass(classOf),
		)
		require.NoError(b, err)
		opts = append(opts, redlock.WithTracer(tel))
	}
	r := testkit.NewOver(b, testkit.ServerNodes(c), opts...)
	if tel != nil {
		require.NoError(b, tel.Observe(r))
	}
	return r
}

// throughput returns how many locks a second were got and released.
func throughput(b *testing.B, r *redlock.Redlock, d time.Duration) float64 {
	b.Helper()
	var cycles atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for g := range 64 {
		wg.Go(func() {
			n, resource := int64(0), []string{fmt.Sprintf("bench:%d", g)}
			for time.Since(start) < d {
				l, err := r.TryLock(b.Context(), resource, 10*time.Second)
				if err == nil {
					err = l.Unlock(b.Context())
				}
				if err != nil {
					b.Error(err)
					return
				}
				n++
			}
			cycles.Add(n)
		})
	}
	wg.Wait()
	return float64(cycles.Load()) / time.Since(start).Seconds()
}
