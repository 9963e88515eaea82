package redlock

import (
	"github.com/seed6c881748/redlock/internal/settings"
	"github.com/seed6c881748/redlock/internal/waiting"
)

// What our other packages may do with a Redlock and its locks, and users may not.
func init() {
	settings.Enter = func(r any) (exit func()) {
		c := r.(*Redlock).calls
		if c.Enter() != nil {
			return func() {}
		}
		return c.Exit
	}
	settings.OneOf = func(l any, k int) {
		lock := l.(*Lock)
		lock.mu.Lock()
		defer lock.mu.Unlock()
		lock.oneOf = k
	}
	settings.OnBehalf = func(since *waiting.Since) any {
		return option(nil, func(o *options) { o.onBehalf = since })
	}
	settings.Use = func(l any) { l.(*Lock).use() }
	settings.Unused = func(l any) { l.(*Lock).claim.keptUntil.Store(nil) }
	settings.Inside = func(r any) settings.Parts {
		c := &r.(*Redlock).core
		return settings.Parts{WallOffset: &c.wallOffset, Clock: c.clock, Queue: c.queue, Gate: c.admission}
	}
	settings.Of = func(r any) settings.Settings {
		o := &r.(*Redlock).defaults
		return settings.Settings{
			Prefix: o.prefix, Space: o.prefix + reservedMark, NodeTimeout: o.nodeTimeout,
			Quarantine: o.quarantine, Fencing: o.fencing, Polling: o.polling,
		}
	}
}
