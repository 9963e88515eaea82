package redlock

import "context"

// A Tracer follows calls from their beginning to their end, as tracing needs it: it gives each call
// a context of its own, and says which events it wants. What nobody wants is not made, so that a
// tracer that leaves most calls alone costs them little. Its methods are safe for concurrent use.
//
// Begin is called when TryLock, Lock, Do, Extend or Unlock begins, on the caller's goroutine, once
// its arguments have been checked; with OpLock, OpDo, OpExtend or OpUnlock. A Do begins once with OpDo
// and, within that, with OpLock, with OpExtend for each extension and with OpUnlock; a KeepAlive has
// its extensions only. Begin returns ctx or a context derived from it: the call goes on with that,
// its events carry its values, and so does the context of Do's function. It must not change
// resources, nor use the Redlock.
//
// What begins ends with one event: OpLock with EventAcquired or EventNotAcquired, OpExtend with
// EventExtended, OpUnlock with EventReleased, OpDo with EventDone or, without a lock, with the
// EventNotAcquired of its OpLock. EventSettled may come later.
//
// Wants reports whether Event is to be called with an event of this kind and with this context. It is
// called with locks held, and sometimes twice for an event: it must be quick, and must not use the
// Redlock.
//
// Event is called as a [Hook] is, on the same goroutine, before the hook. It must not change the
// event's slices.
type Tracer interface {
	Begin(ctx context.Context, op Op, resources []string) context.Context
	Wants(ctx context.Context, kind EventKind) bool
	Event(ctx context.Context, e Event)
}

// WithTracer has t follow calls from their beginning, and get the events that it wants; see [Tracer].
// It may be given besides WithHook. For New only. Default: none.
func WithTracer(t Tracer) Option {
	return func(o *options) { o.tracer, o.newOnly = t, "WithTracer" }
}

// begin has the tracer begin a call.
func (r *core) begin(ctx context.Context, op Op, resources []string) context.Context {
	if r.defaults.tracer == nil {
		return ctx
	}
	return r.defaults.tracer.Begin(ctx, op, resources)
}

// wants reports whether it is worth making an event.
func (r *core) wants(ctx context.Context, kind EventKind, err error) bool {
	return r.defaults.wants(ctx, kind) || isNotable(kind, err)
}

// wants reports whether hook or tracer is to be told of such an event.
func (o *options) wants(ctx context.Context, kind EventKind) bool {
	return o.hook != nil || o.tracer != nil && o.tracer.Wants(ctx, kind)
}

// listener returns who is told of events; nil: nobody.
func (o *options) listener() Hook {
	hook, tracer := o.hook, o.tracer
	if tracer == nil {
		return hook
	}
	return func(ctx context.Context, e Event) {
		if hook == nil {
			tracer.Event(ctx, e) // Events that it does not want have not come so far.
			return
		}
		if tracer.Wants(ctx, e.Kind) {
			tracer.Event(ctx, e)
		}
		hook(ctx, e)
	}
}
