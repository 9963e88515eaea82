package redlockcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// acl finds out which rights the connection's user lacks.
func (s *survey) acl(f *facts) Finding {
	var missing []denial
	verdict := Warning
	for _, d := range f.denials {
		if d.isPassing() || slices.ContainsFunc(missing, d.isAbout) {
			continue
		}
		if !slices.Contains(waitRights, d.right) || d.right == "time" && (s.Fencing || s.Quarantine > 0) {
			verdict = Unfit
		} else if s.Polling {
			continue
		}
		missing = append(missing, d)
	}
	switch at := slices.IndexFunc(missing, denial.isOfKeys); {
	case verdict == Unfit && at >= 0:
		return s.otherKeys(missing[at].says)
	case len(missing) > 0:
		return s.lacking(verdict, missing)
	case f.outside != "":
		return amiss(Unfit, s.otherPrefix(), "locks do not work: the server refuses a key outside of those of the library (%s)", words(f.outside))
	case s.Quarantine > 0 && f.info["run_id"] == "" && f.infoErr != nil:
		return amiss(Unfit, remedy("info", f.infoErr, "use a server that tells it"), "quarantine needs INFO: %s", words(f.infoErr.Error()))
	case !f.probed && len(f.denials) > 0: // They are due to the server's state.
		return unknown(errors.New(f.denials[0].says), "Check again when the server accepts commands")
	case !f.probed:
		return unknown(errors.New("the probe's answer is not understood"), "Compare the rights with those in docs/operations.md")
	default:
		return fine("the connection's user may do what the library needs")
	}
}

// otherKeys reports that the user may only use other keys than the library's.
func (s *survey) otherKeys(says string) Finding {
	which := "without a prefix"
	if s.Prefix != "" {
		which = "that begin with " + words(s.Prefix)
	}
	return amiss(Unfit, s.otherPrefix(), "locks do not work: the user may not use keys %s (%s)", which, words(says))
}

// otherPrefix returns the advice if the user's keys are not those of the prefix. That is more often the prefix's fault
// than the user's, and rights to all keys are no remedy.
func (s *survey) otherPrefix() string {
	const advice = "Give the prefix that the user's keys begin with (WithPrefix, --prefix)"
	if s.Prefix == "" {
		return advice
	}
	return advice + ", or grant the keys ~" + s.Prefix + "*"
}

// lacking reports which commands are refused or unknown, and what that costs: locks, or only waiting.
func (s *survey) lacking(v Verdict, missing []denial) Finding {
	what := "locks do not work"
	if v == Warning {
		what = "who waits for a lock has to poll, and fencing may not work"
	}
	var texts, advice []string
	say := func(does string, which []denial, remedy func(rights []string) string) {
		var rights []string
		for _, d := range which {
			rights = append(rights, d.right)
		}
		if len(rights) > 0 {
			texts = append(texts, fmt.Sprintf("%s %s (%s)", does, commands(rights), words(which[0].says)))
			advice = append(advice, remedy(rights))
		}
	}
	unknown, refused := missing[:0:0], missing[:0:0]
	for _, d := range missing {
		if isUnknown(d.says) {
			unknown = append(unknown, d)
		} else {
			refused = append(refused, d)
		}
	}
	say("does not know", unknown, func(rights []string) string { return restore(rights, "use another server") })
	say("refuses", refused, s.grant)
	return amiss(v, strings.Join(advice, ". "), "%s: the server %s", what, strings.Join(texts, ", and "))
}

// grant returns the advice if the user lacks rights.
func (s *survey) grant(rights []string) string {
	advice := "Grant +" + strings.Join(rights, " +")
	if slices.Contains(rights, "publish") || slices.Contains(rights, "subscribe") {
		advice += " on the channels &" + s.Space + "*"
	}
	return advice
}

// restore returns the advice if the server knows commands from nobody: they were renamed or disabled in its
// configuration, or it is too old, or no Redis at all. Its answer is the same for all of these.
func restore(rights []string, otherwise string) string {
	return "No right helps: have the server know " + commands(rights) + " by that name (no rename-command), or " + otherwise
}

// remedy returns the advice about one command that the server did not carry out.
func remedy(right string, err error, otherwise string) string {
	if err != nil && isUnknown(err.Error()) {
		return restore([]string{right}, otherwise)
	}
	return "Grant the right +" + right + ", or " + otherwise
}

// commands returns the names of the commands of some rights.
func commands(rights []string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.Join(rights, ", "), "|", " "))
}

// writes finds out why a server refuses writes that the user may make.
func (s *survey) writes(f *facts) Finding {
	if i := slices.IndexFunc(f.denials, denial.isPassing); i >= 0 {
		d := f.denials[i]
		return amiss(Unfit, "Remove the cause; until then it gives no locks",
			"the server refuses %s at present: %s", strings.ToUpper(d.right), words(d.says))
	}
	if !f.probed {
		return unknown(errors.New("the probe was not run"), "See to what the check acl has found first")
	}
	return fine("it accepts writes")
}

func (s *survey) undeclaredKeys(f *facts) Finding {
	switch {
	case f.undeclaredKeys == "":
		return fine("its scripts may use keys that they were not given")
	case s.Polling:
		return fine("its scripts may use no key that they were not given, which polling does not need")
	default:
		return amiss(Warning, "Allow undeclared keys, or poll on purpose (WithPolling)",
			"who waits for a lock has to poll: the server refuses scripts a key that they were not given (%s)", words(f.undeclaredKeys))
	}
}
