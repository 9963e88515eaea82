package judge

import "github.com/seed6c881748/redlock/proof/history"

// An oddity is an event that does not fit the others.
type oddity struct {
	event history.Event
	what  string
}

func (r *run) strange(e *history.Event, what string) {
	r.odd = append(r.odd, oddity{*e, what})
}

// readOrder notes events that cannot have happened when they say. Rules compare times, so they would show nothing.
func (r *run) readOrder() {
	for i := range r.events {
		e := &r.events[i]
		ended, down := r.down[e.Client]
		switch {
		case e.Kind == history.End && i+1 < len(r.events):
			r.strange(e, "there is more after it")
		case e.Kind == history.End && e.At < r.end:
			r.strange(e, "something happened later, by its own clock")
		case e.End > 0 && e.End < e.At:
			r.strange(e, "it was answered before it was asked for")
		case down && e.At > ended && e.Fault == "" && e.Kind != history.Up:
			r.strange(e, "its process had ended")
		}
	}
}

// readReturn notes how a call has ended.
func (r *run) readReturn(c *call, e *history.Event) {
	if c.end != nil {
		r.strange(e, "this call had returned before")
		return
	}
	c.end = e
	switch {
	case e.At < c.begin.At:
		r.strange(e, "this call had not begun yet")
	case e.Op != "" && e.Op != c.begin.Op:
		r.strange(e, "this call was another one")
	case e.OK && e.Outcome != "":
		r.strange(e, "this call has succeeded, and has not")
	}
}
