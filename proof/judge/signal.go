package judge

// lossSignal looks at every lock that was kept alive. By Until, its holder has to have unlocked it, or to have been told
// that it is over. The slack is for a machine that is busy; time in which the process stood still does not count.
func lossSignal(r *run, f *findings) {
	for _, c := range r.inOrder {
		l := r.locks[c.id]
		if l == nil || !l.kept {
			continue
		}
		ended, known := l.heldTo(r)
		due := l.signalDue(r)
		switch {
		case known && !l.exact:
			continue // It may have been extended without a word.
		case len(l.unlocks) > 0 && l.unlocks[0].ok() && ended == l.unlocks[0].begin.At:
			continue // It was held then, and no signal was due. The release's outcome is another rule's.
		case !known && (r.killed[l.client] || !l.told || ended <= due):
			continue // Who was killed may have extended it without a word.
		}
		f.facts++
		if ended > due {
			p := place{from: l.until, to: ended, resource: l.resources[0], clients: []string{l.client}, since: c.begin.At}
			f.violation(p, "the context of %s had not ended before %s, and the lock at %s", l, at(ended), at(l.until))
		}
	}
}

// heldTo is when a hold has ended, by the loss signal or Unlock. If neither is known, it went on as long as its process lived.
func (l *lock) heldTo(r *run) (end int64, known bool) {
	end = r.lived(l.client)
	if l.lost != nil {
		end, known = l.lost.At, true
	}
	if len(l.unlocks) > 0 {
		end, known = min(end, l.unlocks[0].begin.At), true
	}
	return end, known
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
