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
