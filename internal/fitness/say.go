package fitness

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/seed6c881748/redlock/internal/brief"
)

// Three ways to say what was found.

func fine(format string, args ...any) Finding {
	return Finding{Verdict: OK, Text: fmt.Sprintf(format, args...)}
}

func amiss(v Verdict, text, advice string) Finding {
	return Finding{Verdict: v, Text: text, Advice: advice}
}

func unknown(why error, advice string) Finding {
	return Finding{Verdict: Unknown, Text: words(why.Error()), Advice: advice}
}

// unread is the finding of a check that needs a field of INFO which is missing.
func (f *facts) unread(field string) Finding {
	if f.infoErr != nil {
		return unknown(f.infoErr, "Grant the right +info, or look at the server's settings by other means")
	}
	return unknown(errors.New("INFO does not tell "+field), "Look at the server's settings by other means")
}

// words is a text of the server's, or an error with one, as it may be shown.
func words(s string) string {
	const most = 200
	s = strings.TrimPrefix(s, "redlock: ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	if !brief.IsPrintable(s) {
		s = strconv.Quote(s)
	}
	return strings.TrimRight(s, ".")
}
