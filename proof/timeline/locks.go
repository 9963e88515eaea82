package timeline

// A lock is what a holder's time follows from: it lasts from the return of the acquisition to the earliest of Until,
// the call that releases it, the loss signal, and the end of the process.
type lock struct {
	acquired, until int64
	renewals        []renewal // In the order of their returns.

	kept bool // Alive: its extensions need not be in the history.

	end     int64
	how     string // It ended, "" if it did not.
	process bool   // That ended it.
}

// A renewal is an extension that succeeded.
type renewal struct{ at, until int64 }

// told says that the lock is known to last until then, whenever it was extended.
func (l *lock) told(until int64) {
	if until > 0 {
		l.renewals = append(l.renewals, renewal{0, until})
	}
}

// over says that the lock's time ends now, if it has not ended before. Calls come in the order of their times.
func (l *lock) over(at int64, how string) {
	if l.how == "" {
		l.end, l.how = at, how
	}
}

// times are the times in which the lock was held: more than one if an extension came back after Until.
func (l *lock) times() (all []hold, how []string) {
	add := func(from, to int64) {
		dead, why := int64(-1), "expired"
		if l.how != "" && l.end <= to {
			if l.process {
				dead = to
			}
			to, why = l.end, l.how
		}
		if to > from {
			all, how = append(all, hold{From: from, To: to, Dead: dead}), append(how, why)
		}
	}
	from, to := l.acquired, l.until
	for _, r := range l.renewals {
		if r.at > to {
			add(from, to)
			from = r.at
		}
		to = max(to, r.until)
	}
	if l.how != "" && (l.kept && l.process || l.until == 0) {
		to = max(to, l.end) // Nobody said until when it was extended, or has it at all.
	}
	add(from, to)
	return all, how
}
