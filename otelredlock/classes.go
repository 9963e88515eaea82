package otelredlock

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed6c881748/redlock/redlock"
)

const (
	// maxClasses bounds how many classes there are: each is several time series, and a function that
	// returns the resource itself must not fill the memory of whoever stores them.
	maxClasses = 100

	otherClass = "_OTHER"
	mixedClass = "mixed"
)

// classes maps resources to classes.
type classes struct {
	of func(resource string) string // nil: there are none

	known sync.Map // class by name
	mu    sync.Mutex
	count int
}

// A class is what is known of a class: attributes that are made once, and counters that metrics
// read. Counting here costs less than an instrument does.
type class struct {
	name  string
	start [len(operations)][]trace.SpanStartOption // by operation

	attempts [len(outcomes)]atomic.Int64 // by how their call has ended
	ended    [len(outcomes)]atomic.Int64 // holds, by cause

	// The attributes of a measurement, by outcome. The slices are there so that none is made for each.
	recorded [len(outcomes)][]metric.RecordOption
	observed [len(outcomes)][]metric.ObserveOption
	causes   [len(outcomes)][]metric.ObserveOption // of the end of a hold
}

// class returns the class of a lock's resources.
func (c *classes) class(resources []string) *class {
	name := ""
	if c.of != nil {
		for i, r := range resources {
			switch one := c.one(r); {
			case i == 0:
				name = one
			case one != name:
				name = mixedClass
			}
			if name == mixedClass {
				break
			}
		}
	}
	if k, ok := c.known.Load(name); ok {
		return k.(*class)
	}
	return c.add(name)
}

// one returns the class of a resource. A function that panics must not end a call that has a lock, as
// metrics are made after that; and one that returns what is not UTF-8 must not stop the export of
// everything else.
func (c *classes) one(resource string) (name string) {
	defer func() {
		if recover() != nil {
			name = otherClass
		}
	}()
	return strings.ToValidUTF8(c.of(resource), replacement)
}

// replacement stands for what is not UTF-8: OpenTelemetry's protocol takes nothing else.
const replacement = "\ufffd"

// validTexts returns texts that can be exported.
func validTexts(texts []string) []string {
	valid := make([]string, len(texts))
	for i, s := range texts {
		valid[i] = strings.ToValidUTF8(s, replacement)
	}
	return valid
}

func (c *classes) add(name string) *class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.known.Load(name); ok {
		return k.(*class)
	}
	if c.count >= maxClasses && name != "" && name != mixedClass {
		name = otherClass
		if k, ok := c.known.Load(name); ok {
			return k.(*class)
		}
	}
	c.count++
	k := newClass(name)
	c.known.Store(name, k)
	return k
}

// each calls f with every class.
func (c *classes) each(f func(k *class)) {
	c.known.Range(func(_, k any) bool {
		f(k.(*class))
		return true
	})
}

// operations are those that have spans.
var operations = [...]redlock.Op{redlock.OpLock, redlock.OpDo, redlock.OpExtend, redlock.OpUnlock}

func newClass(name string) *class {
	k := &class{name: name}
	for i, op := range operations {
		k.start[i] = []trace.SpanStartOption{
			trace.WithAttributes(append(k.attributes(), attribute.String(keyOperation, string(op)))...),
		}
	}
	for o := range outcomes {
		set := metric.WithAttributeSet(attribute.NewSet(k.with(keyError, outcomes[o].text)...))
		k.recorded[o], k.observed[o] = []metric.RecordOption{set}, []metric.ObserveOption{set}
		k.causes[o] = []metric.ObserveOption{metric.WithAttributes(k.with(keyCause, causeOf(outcome(o)))...)}
	}
	return k
}

func (k *class) attributes() []attribute.KeyValue {
	if k.name == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String(keyClass, k.name)}
}

// with returns the attributes of the class with another, unless that is empty.
func (k *class) with(key, value string) []attribute.KeyValue {
	set := k.attributes()
	if value != "" {
		set = append(set, attribute.String(key, value))
	}
	return set
}
