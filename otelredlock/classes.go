package otelredlock

import (
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/semaphore"
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

	permits    map[string]permit // by resource: those of the semaphores that are known
	semaphores []*class          // of each

	known sync.Map // class by name
	mu    sync.Mutex
	count int
}

// A class is what is known of a class: attributes that are made once, and counters that metrics
// read. Counting here costs less than an instrument does.
type class struct {
	name      string                                   // "": none
	semaphore string                                   // "": its resources are no slots
	start     [len(operations)][]trace.SpanStartOption // by operation

	attempts [len(outcomes)]atomic.Int64 // by how their call has ended
	ended    [len(outcomes)]atomic.Int64 // holds, by cause

	// The attributes of a measurement, by outcome. The slices are there so that none is made for each.
	recorded [len(outcomes)][]metric.RecordOption
	observed [len(outcomes)][]metric.ObserveOption
	causes   [len(outcomes)][]metric.ObserveOption // of the end of a hold
}

// A permit is what is known of a semaphore's slot.
type permit struct {
	class *class
	slot  attribute.KeyValue
}

// addSemaphore has the slots of a semaphore told from other resources. They have a class in common.
func (c *classes) addSemaphore(name string) {
	if c.permits == nil {
		c.permits = make(map[string]permit)
	}
	slots := semaphore.Slots(name, semaphore.MaxPermits)
	if _, ok := c.permits[slots[0]]; ok {
		return
	}
	class := ""
	if c.of != nil {
		class = c.one(name)
	}
	k := newClass(class, validText(name))
	c.semaphores = append(c.semaphores, k)
	for slot, resource := range slots {
		c.permits[resource] = permit{k, attribute.Int(keySlot, slot)}
	}
}

// permit returns what is known of a slot, if the resources are one.
func (c *classes) permit(resources []string) (p permit, ok bool) {
	if len(resources) == 1 {
		p, ok = c.permits[resources[0]]
	}
	return p, ok
}

// class returns the class of a lock's resources.
func (c *classes) class(resources []string) *class {
	if p, ok := c.permit(resources); ok {
		return p.class
	}
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
	return validText(c.of(resource))
}

// replacement stands for what is not UTF-8: OpenTelemetry's protocol takes nothing else.
const replacement = "\ufffd"

func validText(text string) string { return strings.ToValidUTF8(text, replacement) }

// validTexts returns texts that can be exported.
func validTexts(texts []string) []string {
	valid := make([]string, len(texts))
	for i, s := range texts {
		valid[i] = validText(s)
	}
	return valid
}

func (c *classes) add(name string) *class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known.Load(name); !ok && c.count >= maxClasses && name != "" && name != mixedClass {
		name = otherClass
	}
	if k, ok := c.known.Load(name); ok {
		return k.(*class)
	}
	c.count++
	k := newClass(name, "")
	c.known.Store(name, k)
	return k
}

// each calls f with every class.
func (c *classes) each(f func(k *class)) {
	for _, k := range c.semaphores {
		f(k)
	}
	c.known.Range(func(_, k any) bool {
		f(k.(*class))
		return true
	})
}

// operations are those that have spans.
var operations = [...]redlock.Op{redlock.OpLock, redlock.OpDo, redlock.OpExtend, redlock.OpUnlock}

func newClass(name, semaphore string) *class {
	k := &class{name: name, semaphore: semaphore}
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

func (k *class) attributes() (all []attribute.KeyValue) {
	if k.name != "" {
		all = append(all, attribute.String(keyClass, k.name))
	}
	if k.semaphore != "" {
		all = append(all, attribute.String(keySemaphore, k.semaphore))
	}
	return all
}

// with returns the attributes of the class with another, unless that is empty.
func (k *class) with(key, value string) []attribute.KeyValue {
	set := k.attributes()
	if value != "" {
		set = append(set, attribute.String(key, value))
	}
	return set
}
