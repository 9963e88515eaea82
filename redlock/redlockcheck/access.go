package redlockcheck

import (
	"errors"
	"slices"
	"strings"
)

// acl finds what the connection's user may not do.
func (s *survey) acl(f *facts) Finding {
	var missing, says []string
	verdict := Warning
	for _, d := range f.denials {
		if d.isPassing() || slices.Contains(missing, d.right) {
			continue
		}
		if !slices.Contains(waitRights, d.right) || d.right == "time" && (s.Fencing || s.Quarantine > 0) {
			verdict = Unfit
		} else if s.Polling {
			continue
		}
		missing = append(missing, d.right)
		says = append(says, d.says)
	}
	switch {
	case verdict == Unfit && slices.ContainsFunc(says, keyRE.MatchString):
		return s.otherKeys(says[slices.IndexFunc(says, keyRE.MatchString)])
	case len(missing) > 0:
		return s.lacking(verdict, missing, says[0])
	case f.outside != "":
		return amiss(Unfit, s.otherPrefix(), "locks do not work: the server refuses a key outside of those of the library (%s)", words(f.outside))
	case s.Quarantine > 0 && f.info["run_id"] == "" && f.infoErr != nil:
		return amiss(Unfit, "Grant the right +info", "quarantine needs INFO: %s", words(f.infoErr.Error()))
	case !f.probed && len(f.denials) > 0: // For what state the server is in.
		return unknown(errors.New(f.denials[0].says), "Check again when the server accepts commands")
	case !f.probed:
		return unknown(errors.New("the probe's answer is not understood"), "Compare the rights with those in docs/operations.md")
	default:
		return fine("the connection's user may do what the library needs")
	}
}

// otherKeys says that the user may use other keys than those of the library.
func (s *survey) otherKeys(says string) Finding {
	which := "without a prefix"
	if s.Prefix != "" {
		which = "that begin with " + words(s.Prefix)
	}
	return amiss(Unfit, s.otherPrefix(), "locks do not work: the user may not use keys %s (%s)", which, words(says))
}

// otherPrefix is the advice where the user's keys are not those of the prefix. That is more often the
// prefix's fault than the user's, and rights to all keys are no remedy.
func (s *survey) otherPrefix() string {
	const advice = "Give the prefix that the user's keys begin with (WithPrefix, --prefix)"
	if s.Prefix == "" {
		return advice
	}
	return advice + ", or grant the keys ~" + s.Prefix + "*"
}

// lacking says what is refused, and what for: locks, or only waiting.
func (s *survey) lacking(v Verdict, missing []string, says string) Finding {
	what := "locks do not work"
	if v == Warning {
		what = "who waits for a lock has to poll, and fencing may not work"
	}
	advice := "Grant +" + strings.Join(missing, " +")
	if slices.Contains(missing, "publish") || slices.Contains(missing, "subscribe") {
		advice += " on the channels &" + s.Space + "*"
	}
	commands := strings.ToUpper(strings.ReplaceAll(strings.Join(missing, ", "), "|", " "))
	return amiss(v, advice, "%s: the server refuses %s (%s)", what, commands, words(says))
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
