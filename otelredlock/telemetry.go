// Package otelredlock makes OpenTelemetry traces and metrics of what a Redlock does.
//
//	tel, err := otelredlock.New(otelredlock.WithClass(classOf))
//	...
//	r, err := redlock.New(nodes, redlock.WithTracer(tel))
//	...
//	err = tel.Observe(r)
//
// Each TryLock, Lock, Do, Extend and Unlock has a span; those within a Do are children of its span. The
// events of a span are the attempts and the nodes' votes. The loss of a hold is an event, and the
// error, of the span of its Do. What Do's function does with its context is within that span, too.
//
// A resource is never an attribute of a metric, as there may be any number of them: [WithClass] maps
// them to a few classes. docs/telemetry.md in the repository lists spans, metrics and attributes, and
// has a dashboard and alert rules.
package otelredlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed6c881748/redlock/redlock"
)

// scope is the name of the instrumentation.
const scope = "github.com/seed6c881748/redlock/otelredlock"

// A Telemetry makes traces and metrics of one Redlock. Give it to [redlock.WithTracer], and then
// give the new Redlock to Observe. Only [New] makes one. It is safe for concurrent use.
type Telemetry struct {
	tracer        trace.Tracer
	classes       classes
	showResources bool
	instruments   *instruments

	mu           sync.Mutex
	registration metric.Registration // nil: it observes nothing
}

var _ redlock.Tracer = (*Telemetry)(nil)

// An Option changes a setting of a Telemetry.
type Option func(*setup)

type setup struct {
	tracers       trace.TracerProvider
	meters        metric.MeterProvider
	class         func(resource string) string
	semaphores    []string
	showResources bool
}

// WithTracerProvider has spans made by p. Default: the global one, as it is when New is called.
func WithTracerProvider(p trace.TracerProvider) Option { return func(s *setup) { s.tracers = p } }

// WithMeterProvider has metrics made by p. Default: the global one, as it is when New is called.
func WithMeterProvider(p metric.MeterProvider) Option { return func(s *setup) { s.meters = p } }

// WithClass has f return the class of a resource: the attribute redlock.resource.class of spans and
// metrics. There should be few classes: "invoice" for "invoice:2026-11-4711". After the first 100, all
// further ones are "_OTHER". A lock on resources of several classes has the class "mixed". An empty
// class adds no attribute. If f panics, the class is "_OTHER". Bytes that are not UTF-8 are replaced. f
// is called on callers' goroutines, by several at a time, and must be quick. Default: no classes.
func WithClass(f func(resource string) string) Option { return func(s *setup) { s.class = f } }

// WithSemaphores names semaphores of package semaphore, as they were given to semaphore.New. Spans and metrics of
// their permits have the name as redlock.semaphore, and spans the number of the slot as redlock.slot. A permit
// is a lock on a resource such as "resize#3", which a user may have named so for something else: only a semaphore
// that is named here is known as one. WithClass's function is called once with its name, not with its slots.
// There should be few: each is several time series, which begin at once. Default: none.
func WithSemaphores(names ...string) Option {
	return func(s *setup) { s.semaphores = append(s.semaphores, names...) }
}

// WithSpanResources has spans show the resources themselves, as redlock.resources, and the texts of
// errors, which may contain them. Metrics never show either. Default: spans do not show them.
func WithSpanResources() Option { return func(s *setup) { s.showResources = true } }

// New returns a Telemetry. The error is that of the meter provider.
func New(opts ...Option) (*Telemetry, error) {
	s := setup{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider()}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("otelredlock: nil Option")
		}
		opt(&s)
	}
	if s.tracers == nil || s.meters == nil {
		return nil, errors.New("otelredlock: nil provider")
	}
	if slices.Contains(s.semaphores, "") {
		return nil, errors.New("otelredlock: empty name of a semaphore")
	}
	in, err := newInstruments(s.meters.Meter(scope))
	if err != nil {
		return nil, fmt.Errorf("otelredlock: %w", err)
	}
	t := &Telemetry{tracer: s.tracers.Tracer(scope), instruments: in, showResources: s.showResources}
	t.classes.of = s.class
	for _, name := range s.semaphores {
		t.classes.addSemaphore(name)
	}
	return t, nil
}

// Format prints what it is, whatever the verb: its fields are the providers', and change.
func (t *Telemetry) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "otelredlock.Telemetry") }

// Observe has the metrics show the state and the counters of r, the Redlock that t was given to. They
// end with [Telemetry.Close]. The error is that of the meter provider, or says that t observes another
// Redlock: each Redlock needs a Telemetry of its own, or their figures would be mixed up.
func (t *Telemetry) Observe(r *redlock.Redlock) error {
	if r == nil {
		return errors.New("otelredlock: nil Redlock")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.registration != nil {
		return errors.New("otelredlock: this Telemetry observes a Redlock already")
	}
	reg, err := t.instruments.observe(r, &t.classes)
	if err != nil {
		return fmt.Errorf("otelredlock: %w", err)
	}
	t.registration = reg
	return nil
}

// Close ends what Observe has begun. Call it after [redlock.Redlock.Close] and after the metrics were
// flushed. It may be called again.
func (t *Telemetry) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.registration == nil {
		return nil
	}
	err := t.registration.Unregister()
	t.registration = nil
	return err
}

// Wants says which events are needed; see [redlock.Tracer]. Events of rounds are many, and only
// spans need them.
func (t *Telemetry) Wants(ctx context.Context, kind redlock.EventKind) bool {
	switch kind {
	case redlock.EventHoldEnded:
		return true
	case redlock.EventDecided, redlock.EventSettled, redlock.EventWaiting, redlock.EventHoldAtRisk, redlock.EventAcquired,
		redlock.EventNotAcquired, redlock.EventExtended, redlock.EventReleased, redlock.EventDone:
		return trace.SpanFromContext(ctx).IsRecording() || callOf(ctx) != nil
	default:
		return false // Of nodes: the metrics have their states.
	}
}

// Event makes spans and metrics of an event; see [redlock.Tracer].
func (t *Telemetry) Event(ctx context.Context, e redlock.Event) {
	if e.Kind == redlock.EventHoldEnded {
		t.classes.class(e.Resources).ended[endOf(e.Err)].Add(1)
	}
	t.trace(ctx, &e)
}
