package fitness

import (
	"errors"
	"slices"
	"strings"
)

// acl finds what the connection's user may not do.
func (s *Setup) acl(f *facts) Finding {
	var missing, says []string
	verdict := Warning
	for _, d := range f.denials {
		if d.isPassing() || slices.Contains(missing, d.right) {
			continue
		}
		if !slices.Contains(waitRights, d.right) || d.right == "time" && (s.Fencing || s.Quarantine != nil) {
			verdict = Unfit
		} else if s.Polling {
			continue
		}
		missing = append(missing, d.right)
		if !slices.Contains(says, d.says) {
			says = append(says, d.says)
		}
	}
	switch {
	case verdict == Unfit && slices.ContainsFunc(says, keyRE.MatchString):
		return s.otherKeys(says[slices.IndexFunc(says, keyRE.MatchString)])
	case len(missing) > 0:
		return s.lacking(verdict, missing, says[0])
	case f.outside != "":
		return amiss(Unfit, "locks do not work: the server refuses a key outside of those of the library ("+words(f.outside)+")", s.otherPrefix())
	case s.Quarantine != nil && f.info["run_id"] == "" && f.infoErr != nil:
		return amiss(Unfit, "quarantine needs INFO: "+words(f.infoErr.Error()), "Grant the right +info")
	case !f.probed && len(f.denials) > 0: // For what state the server is in.
		return unknown(errors.New(f.denials[0].says), "Check again when the server accepts commands")
	case !f.probed:
		return unknown(errors.New("the probe's answer is not understood"), "Compare the rights with those in docs/operations.md")
	default:
		return fine("the connection's user may do what the library needs")
	}
}

// otherKeys says that the user may use other keys than those of the library.
func (s *Setup) otherKeys(says string) Finding {
	which := "without a prefix"
	if s.Prefix != "" {
		which = "that begin with " + words(s.Prefix)
	}
	return amiss(Unfit, "locks do not work: the user may not use keys "+which+" ("+words(says)+")", s.otherPrefix())
}

// otherPrefix is the advice where the user's keys are not those of the prefix. That is more often the
// prefix's fault than the user's, and rights to all keys are no remedy.
func (s *Setup) otherPrefix() string {
	if s.Prefix == "" {
		return "Give the prefix that the user's keys begin with (WithPrefix, --prefix)"
	}
	return "Give the prefix that the user's keys begin with (WithPrefix, --prefix), or grant the keys ~" + s.Prefix + "*"
}

// lacking says what is refused, and what for: locks, or only waiting.
func (s *Setup) lacking(v Verdict, missing []string, says string) Finding {
	text := "locks do not work: "
	if v == Warning {
		text = "who waits for a lock has to poll, and fencing may not work: "
	}
	text += "the server refuses " + strings.ToUpper(strings.ReplaceAll(strings.Join(missing, ", "), "|", " "))
	advice := "Grant +" + strings.Join(missing, " +")
	if slices.Contains(missing, "publish") || slices.Contains(missing, "subscribe") {
		advice += " on the channels &" + s.Space + "*"
	}
	return amiss(v, text+" ("+words(says)+")", advice)
}

// writes finds out why a server refuses writes that the user may make.
func (s *Setup) writes(f *facts) Finding {
	for _, d := range f.denials {
		if d.isPassing() {
			return amiss(Unfit, "the server refuses "+strings.ToUpper(d.right)+" at present: "+words(d.says),
				"Remove the cause; until then it gives no locks")
		}
	}
	if !f.probed {
		return unknown(errors.New("the probe was not run"), "See to what the check acl has found first")
	}
	return fine("it accepts writes")
}
