package judge

// lossSignal looks at every lock that was kept alive. By Until, its holder has to have unlocked it, or to have been told
// that it is over. The slack is for a machine that is busy; time in which the process stood still does not count.
func lossSignal(r *run, f *findings) {
	for _, res := range r.resources {
		for _, l := range r.byResource[res] {
			if l.kept && l.resources[0] == res {
				signalOf(r, f, l)
			}
		}
	}
}

// signalDue is by when the loss signal has to come: at the end, unless the lock is kept from a later moment on; and as soon as
// an extension has shown the loss.
func (l *lock) signalDue(r *run) int64 {
	end := l.until
	for _, c := range l.extends {
		if c.lost() {
			end = min(end, c.end.At)
		}
	}
	return r.excused(l.client, max(end, l.keptFrom), r.slack(l.client, end))
}

func signalOf(r *run, f *findings, l *lock) {
	due := l.signalDue(r)
	p := place{from: l.until, to: due, resource: l.resources[0], clients: []string{l.client}}
	p.since = l.acquired.begin.At
	unlocked := len(l.unlocks) > 0
	if l.lost != nil && (!unlocked || l.lost.At <= l.unlocks[0].begin.At) {
		if !l.exact {
			return // It may have been extended without a word.
		}
		f.facts++
		if p.to = l.lost.At; p.to > due {
			f.violation(p, "the context of %s ended at %s, and the lock at %s", l, at(l.lost.At), at(l.until))
		}
		return
	}
	if unlocked {
		first := l.unlocks[0]
		if !l.exact || first.ok() {
			return // Not known, or held: then no signal was due. The release's outcome is another rule's.
		}
		f.facts++
		if p.to = first.begin.At; p.to > due {
			f.violation(p, "the context of %s had not ended at %s, and the lock at %s", l, at(p.to), at(l.until))
		}
		return
	}
	ended, down := r.down[l.client]
	if !down {
		ended = r.end
	}
	if r.killed[l.client] || !l.told || ended <= due {
		return // Who was killed may have extended it without a word.
	}
	f.facts++
	p.to = ended
	f.violation(p, "the context of %s has not ended, and the lock at %s", l, at(l.until))
}
