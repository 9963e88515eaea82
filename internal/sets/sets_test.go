package sets

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// set makes a set of words: the address, then the run if it was reached, its age and when it was last seen, in
// seconds: "a", "a=run", "a=run:600", "a=run:600:300".
func set(t *testing.T, words string) *Set {
	t.Helper()
	s := &Set{Who: "somebody"}
	for _, w := range strings.Fields(words) {
		name, rest, _ := strings.Cut(w, "=")
		server := Server{Name: name}
		parts := strings.Split(rest, ":")
		if server.Run = parts[0]; server.Run != "" {
			server.Started = time.Hour
		}
		for i, to := range []*time.Duration{&server.Started, &server.Confirmed} {
			if len(parts) > i+1 {
				d, err := time.ParseDuration(parts[i+1] + "s")
				require.NoError(t, err)
				*to = d
			}
		}
		s.Servers = append(s.Servers, server)
	}
	return s
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		mine, theirs string
		here, there  string // the odd ones
		meet         bool
	}{
		"the same":                         {"a=1 b=2 c=3", "a=1 b=2 c=3", "", "", true},
		"in another order, by other names": {"a=1 b=2 c=3", "z=3 x=1 y=2", "", "", true},
		"one wrong":                        {"a=1 b=2 c=3", "a=1 b=2 d=4", "c", "d", false},
		"three to five":                    {"a=1 b=2 c=3", "a=1 b=2 c=3 d=4 e=5", "", "d e", false},
		"three to four":                    {"a=1 b=2 c=3", "a=1 b=2 c=3 d=4", "", "d", true},
		"four to three, another":           {"a=1 b=2 c=3 d=4", "b=2 c=3 d=4", "a", "", true},
		"one and three":                    {"a=1", "a=1 b=2 c=3", "", "b c", false},
		"a name that was moved":            {"a=1 b=2 c=3", "a=1 b=2 c=4", "c", "c", false},

		"never reached":                          {"a=1 b=2 c", "a=1 b=2 d=4", "", "", true},
		"one hides itself, and one is wrong":     {"a b=2 c=3", "a b=2 d=4", "c", "d", false},
		"one hides itself, and one has moved":    {"a b=2 c=3", "a b=2 c=4", "c", "c", false},
		"one that hides itself, by another name": {"x=1 b c=3", "b=1 x c=3", "", "", true},
		"not enough that are unknown":            {"a=1 b=2 c=3", "a d=4 e=5", "b c", "d e", false},
		"a common name is the same address":      {"c=3 a=1", "a d=4", "c", "d", true},
		"nothing is known":                       {"a b c", "d e f", "", "", true},

		"it has restarted, and they were not back yet": {"a=1 b=22:60:0 c=3", "a=1 b=2:3600:70 c=3", "", "", true},
		"it has restarted, and I was not back yet":     {"a=1 b=2:3600:70 c=3", "a=1 b=22:60:0 c=3", "", "", true},
		"as long as a message and two more may take":   {"a=1 b=22:60:0 c=3", "a=1 b=2:3600:56 c=3", "", "", true},
		"both lived at once":                           {"a=1 b=22:60:0 c=3", "a=1 b=2:3600:50 c=3", "b", "b", false},
		"it has just begun":                            {"a=1 b=22:1:0 c=3", "a=1 b=2:3600:0 c=3", "", "", true},
		"all have restarted":                           {"a=11:9:0 b=22:8:0 c=33:7:0", "a=1:99:15 b=2:99:15 c=3:99:15", "", "", true},

		"the one of another name is the odd one": {"c=33:50:0 a=11:60:0 b=2", "a=1:3600:70 b=2 d=4", "c", "d", false},

		// Each of x and a could be what p is now; only x could be what q is.
		"the right pairs must be found": {"x=1:100:50 a=2:100:29", "p=3:30:0 q=4:45:0", "", "", true},

		// b could be x, too, which is a; a could be z, but e could be nothing else.
		"whoever is displaced may return": {"a=0:20:0 b=11:10:0 e=44:24:0", "x=0:28:8 y=1:3600:12 z=4:3600:41", "", "", true},

		"their two lead to one": {"a=1 b=2 c=3", "a=1 b=1 c=3", "b", "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			here, there, meet := Compare(set(t, c.mine), set(t, c.theirs))
			assert.Equal(t, c.here, strings.Join(here, " "))
			assert.Equal(t, c.there, strings.Join(there, " "))
			assert.Equal(t, c.meet, meet)

			here, there, meet = Compare(set(t, c.theirs), set(t, c.mine))
			assert.Len(t, here, len(strings.Fields(c.there)))
			assert.Len(t, there, len(strings.Fields(c.here)))
			assert.Equal(t, c.meet, meet)
		})
	}
}

func TestASetSaysAllThatAnotherSays(t *testing.T) {
	for name, c := range map[string]struct {
		s, of      string
		same, isIn bool
	}{
		"the same":                 {"a=1 b=2", "b=2 a=1", true, true},
		"one is not reached":       {"a=1 b", "b=2 a=1", false, true},
		"seen later":               {"a=1 b=2:90:5", "a=1 b=2:90:60", false, false},
		"each as good as just now": {"a=1:90:2 b=2:90:9", "a=1:90:1 b=2:90:5", true, true},
		"one server twice":         {"a=1 b=1", "a=1 b=2", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, of := set(t, c.s), set(t, c.of)
			assert.Equal(t, c.same, s.Key() == of.Key())
			assert.Equal(t, c.isIn, s.IsIn(of))
			of.Label = "other"
			assert.NotEqual(t, s.Key(), of.Key())
			assert.False(t, s.IsIn(of))
		})
	}
}

func TestTwice(t *testing.T) {
	assert.Equal(t, []string{"a", "c"}, set(t, "a=1 b=2 c=1 d").Twice())
	assert.Empty(t, set(t, "a=1 b=1:3600:3").Twice(), "the name b was moved, and is not reached now")
}

func TestNotesAreReadAsTheyWereWritten(t *testing.T) {
	s := set(t, "a=1:60:0 b c=3:600:9")
	s.Label, s.Who, s.Servers[1].Name = "line\nline", "me \"x\"", "é\n"
	args := Write(5*time.Second, s)
	require.Equal(t, []any{int64(30_000), int64(5000), int64(1000), s.Key()}, args[:4])
	text := string(args[4].([]byte))
	require.NotContains(t, text, "\n")
	r, ok := Parse(strings.Join([]string{"f00 61 1700000000123 1", "1500 " + text, "x y", "7 {"}, "\n"))
	require.True(t, ok)
	want := *set(t, "a=1:61.5:1.5 b c=3:601.5:10.5")
	want.Label, want.Who, want.Servers[1] = s.Label, s.Who, Server{Name: "é\n", Started: 1500 * time.Millisecond, Confirmed: 1500 * time.Millisecond}
	assert.Equal(t, Reading{
		Run: "f00", Uptime: 61 * time.Second, Now: 1_700_000_000_123 * time.Millisecond, Wrote: true,
		Notes: []Note{{want, 1500 * time.Millisecond}},
	}, r)

	for _, text := range []string{"", "f00", "f00 61", "f00 x 1 1"} {
		_, known := Parse(text)
		assert.False(t, known, text)
	}
	r, ok = Parse("f00 -3598 1 0")
	assert.True(t, ok)
	assert.Equal(t, Reading{Run: "f00", Now: time.Millisecond}, r, "its clock was set back past its start")
	r, ok = Parse("f00 61 1 0")
	assert.True(t, ok)
	assert.Equal(t, Reading{Run: "f00", Uptime: 61 * time.Second, Now: time.Millisecond}, r)
}
