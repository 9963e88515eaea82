package otelredlock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed6c881748/redlock/otelredlock"
	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
)

// defaultNodeTimeout is that of package redlock.
const defaultNodeTimeout = 250 * time.Millisecond

const ttl = 9 * time.Second

// A rig is a Redlock on nodes in memory whose spans and metrics can be looked at.
type rig struct {
	*redlock.Redlock

	t      *testing.T
	nodes  *redlocktest.Cluster
	spans  *tracetest.SpanRecorder
	tracer *sdktrace.TracerProvider
	meter  *sdkmetric.MeterProvider
	reader *sdkmetric.ManualReader
	tel    *otelredlock.Telemetry
}

// classOf is what is before the colon.
func classOf(resource string) string {
	class, _, _ := strings.Cut(resource, ":")
	return class
}

type setup struct {
	sampler sdktrace.Sampler
	tel     []otelredlock.Option
	opts    []redlock.Option
}

// inBubble runs f with a rig in a bubble of fake time.
func inBubble(t *testing.T, with setup, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
		traced := []sdktrace.TracerProviderOption{sdktrace.WithSpanProcessor(r.spans)}
		if with.sampler != nil {
			traced = append(traced, sdktrace.WithSampler(with.sampler))
		}
		r.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader))
		r.tracer = sdktrace.NewTracerProvider(traced...)
		var err error
		r.tel, err = otelredlock.New(append([]otelredlock.Option{
			otelredlock.WithTracerProvider(r.tracer), otelredlock.WithMeterProvider(r.meter), otelredlock.WithClass(classOf),
		}, with.tel...)...)
		require.NoError(t, err)
		r.nodes = redlocktest.New(t, 3, append([]redlock.Option{redlock.WithTracer(r.tel), redlock.WithRetryCount(0)}, with.opts...)...)
		r.Redlock = r.nodes.Redlock
		require.NoError(t, r.tel.Observe(r.Redlock))
		f(t, r)
	})
}

// ended returns the spans that have ended, and forgets them.
func (r *rig) ended() []sdktrace.ReadOnlySpan {
	time.Sleep(2 * defaultNodeTimeout) // The last votes of the last round.
	synctest.Wait()
	spans := r.spans.Ended()
	r.spans.Reset()
	return spans
}

// named returns the only span of that name.
func named(t *testing.T, spans []sdktrace.ReadOnlySpan, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	var found []sdktrace.ReadOnlySpan
	for _, s := range spans {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, "%s among %v", name, names(spans))
	return found[0]
}

func names[S sdktrace.ReadOnlySpan](spans []S) (names []string) {
	for _, s := range spans {
		names = append(names, s.Name())
	}
	return names
}

func values(attrs []attribute.KeyValue) map[string]any {
	m := make(map[string]any, len(attrs))
	for _, a := range attrs {
		m[string(a.Key)] = a.Value.AsInterface()
	}
	return m
}

// events returns the attributes of the span's events of that name.
func events(s sdktrace.ReadOnlySpan, name string) (found []map[string]any) {
	for _, e := range s.Events() {
		if e.Name == name {
			found = append(found, values(e.Attributes))
		}
	}
	return found
}

// metrics returns all points by metric and attributes: counts of histograms, values of the rest.
func (r *rig) metrics() map[string]float64 {
	r.t.Helper()
	synctest.Wait()
	var all metricdata.ResourceMetrics
	require.NoError(r.t, r.reader.Collect(context.Background(), &all))
	points := map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(set attribute.Set, v float64) { points[m.Name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = v }
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Count))
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					add(p.Attributes, p.Value)
				}
			default:
				r.t.Fatalf("%s has data of type %T", m.Name, data)
			}
		}
	}
	return points
}

// sum adds up a metric over the nodes. It must be there before there is anything to tell.
func (r *rig) sum(metric string) (all float64) {
	r.t.Helper()
	m := r.metrics()
	for _, n := range r.Stats().Nodes {
		v, ok := m[metric+"{redlock.node.name="+n.Node+"}"]
		require.True(r.t, ok, metric)
		all += v
	}
	return all
}
