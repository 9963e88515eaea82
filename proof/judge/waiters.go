package judge

import "time"

// waiters compares calls of Lock of one process that want one and the same resource. If one was in line when another came,
// which has got the lock, then the first one got it first, or had given up by then.
//
// That holds as long as the nodes answer those in line: a call that has not heard of an answer to the others for too long asks
// for itself. And a call for several resources holds up the others. Processes may overtake each other.
func waiters(r *run, f *findings) {
	for _, res := range r.resources {
		for _, l := range r.byResource[res] {
			c, from := l.acquired, l.asked-r.answered(l.acquired)
			if c.wait == 0 || c.begin.Polls || !r.healthy(c.client, from, l.got) || !r.ran(c.client, from, l.got) {
				continue
			}
			last := r.inLineBefore(c, res)
			if last == nil {
				continue
			}
			f.facts++
			if l.got < r.left(last) {
				p := place{from: last.begin.At, to: last.end.At, resource: res, clients: []string{c.client}}
				f.violation(p, "%s waited from %s to %s; %s came at %s, and got the lock at %s", last, at(last.wait),
					at(last.end.At), c, at(c.begin.At), at(l.got))
			}
		}
	}
}

// inLineBefore is the call of the same process that left the line last, of those that were in it when c came; nil if there
// was none, or one for several resources.
func (r *run) inLineBefore(c *call, res string) (last *call) {
	for _, w := range r.waiting[res] {
		if w.client != c.client || w.end == nil || w.begin.Polls || w.begin.At >= c.end.At || w.end.At <= c.begin.At {
			continue
		}
		if len(w.begin.Resources) > 1 {
			return nil
		}
		if w.wait < c.begin.At && r.left(w) > c.begin.At && (last == nil || r.left(w) > r.left(last)) {
			last = w
		}
	}
	return last
}

// left is until when a call was in line for sure. One that gives up is not, for a while before it returns.
func (r *run) left(c *call) int64 {
	if c.ok() {
		return c.end.At
	}
	return c.end.At - r.answered(c)
}

// answered is how long nodes may take to answer a call that waits.
func (r *run) answered(c *call) int64 { return 2 * max(c.begin.NodeTimeout, r.nodeTimeout()) }

func (r *run) nodeTimeout() int64 {
	if d, err := time.ParseDuration(r.header.Settings["node timeout"]); err == nil {
		return int64(d)
	}
	return int64(250 * time.Millisecond)
}
