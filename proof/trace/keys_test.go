package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/history"
)

func TestLinesOfMonitor(t *testing.T) {
	l, err := parse(`1795940844.507820 [1 127.0.0.1:36042] "set" "k" "\x00\"\xc3\xa9\n" ""`)
	require.NoError(t, err)
	require.Equal(t, line{at: 1795940844507820000, db: 1, client: "127.0.0.1:36042", args: []string{"set", "k", "\x00\"é\n", ""}}, l)
	l, err = parse(`1.000001 [0 lua] "DEL" "b"`)
	require.NoError(t, err)
	require.True(t, l.script)
	for _, text := range []string{
		"", "OK", `x [0 lua] "a"`, `1.x [0 lua] "a"`, `1.0 [x lua] "a"`, `1.0 [0 lua`, `1.0 [0 lua] `, `1.0 [0 lua] a`, `1.0 [0 lua] "a`, `1.0 [0 lua] "\q"`, `1.0 [0 lua] "a\`,
	} {
		_, err = parse(text)
		require.Error(t, err, text)
	}
}

// A scene is a server whose commands are told; times are in ms.
type scene struct {
	keys
	told  []string
	reads []string
}

func newScene() *scene {
	s := &scene{}
	s.keys = newKeys(func(e history.Event) {
		text := e.Op
		if len(e.Resources) > 0 {
			text += " " + e.Resources[0]
		}
		if e.Holder != "" {
			text += " " + s.name(e.Holder)
		}
		if e.TTL > 0 {
			text += fmt.Sprint(" ", e.TTL/ms)
		}
		if e.Fence > 0 {
			text += fmt.Sprint(" #", e.Fence)
		}
		s.told = append(s.told, text)
	}, func(name string) { s.reads = append(s.reads, name) })
	s.last = 1000 * ms
	return s
}

// name is the token of a digest.
func (s *scene) name(holder string) string {
	for _, token := range []string{"x", "y", "z"} {
		if Digest(token) == holder {
			return token
		}
	}
	return "?"
}

// does has the server carry out a command at a time, from a script if it begins with a comma.
func (s *scene) does(at int64, command string) {
	text, script := strings.CutPrefix(command, ",")
	s.carry(line{at: at * ms, script: script, args: strings.Fields(text)})
}

// says sees what was told since it was asked last.
func (s *scene) says(t *testing.T, steps ...string) {
	t.Helper()
	require.Equal(t, steps, s.told)
	s.told = nil
}

// knows has the key a be nobody's.
func (s *scene) knows(t *testing.T) {
	t.Helper()
	s.does(1000, "SET a x NX PX 100")
	s.says(t, "asked a x 100")
	require.Equal(t, []string{"a"}, s.reads)
	s.found("a", nil, -2)
	s.says(t, "found a")
}

// granted is a server on which x has the key a.
func granted(t *testing.T) *scene {
	t.Helper()
	s := newScene()
	s.knows(t)
	s.does(1010, "SET a x NX PX 100")
	s.says(t, "grant a x 100")
	s.reads = nil
	return s
}

// What came of a request is not known yet, as a server that is out of memory lets nobody read the key; it is extended.
func TestAnExtensionOfAKeyThatIsNotKnownYet(t *testing.T) {
	s := newScene()
	s.does(1000, "SET a x NX PX 100")
	s.does(1050, "EVALSHA 123 1 a x 200")
	s.does(1050, ",PEXPIRE a 200")
	s.does(1060, "EVALSHA 123 1 a y 300") // Of somebody who has not asked for it here.
	s.does(1060, ",PEXPIRE a 300")
	s.says(t, "asked a x 100", "asked a x 200")
}

func TestStepsOfAKey(t *testing.T) {
	s := newScene()
	s.knows(t)
	s.does(1010, "SET a x NX GET PX 100")
	s.does(1020, "set a y nx px 100")
	s.does(1030, "EVALSHA 123 1 a x 200")
	s.does(1030, ",GET a")
	s.does(1030, ",PEXPIRE a 200")
	s.does(1040, "EVALSHA 123 1 a x 30")
	s.does(1040, ",PEXPIRE a 30")
	s.does(1050, "EVALSHA 123 1 a x")
	s.does(1050, ",DEL a")
	s.says(t, "grant a x 100", "extend a x 200", "shorten a x 30", "release a x")
	s.does(1060, "SET a y NX EX 1")
	s.does(1070, "SET a y EX 2") // As node-redlock extends.
	s.says(t, "grant a y 1000", "extend a y 2000")
	s.does(1080, "FLUSHALL")
	s.does(1090, "SET a z NX PXAT 1200")
	s.says(t, "wiped", "grant a z 110")
}

func TestKeyExpires(t *testing.T) {
	s := granted(t)
	s.does(1109, "SET a y NX PX 100") // It may be over at 1110 already.
	s.says(t, "asked a y 100")
	value := "x"
	s.found("a", &value, 0)
	s.does(1110, "SET a y NX PX 100")
	s.says(t, "found a x", "asked a y 100")
	value = "y"
	s.found("a", &value, 99)
	s.says(t, "found a y 99")
	s.does(1300, "PING")
	s.does(1300, "PING")
	s.sweep()
	s.says(t, "expire a y")
	s.does(1310, "SET a z NX PX 100")
	s.says(t, "grant a z 100")
	s.reads = nil
	s.does(1290, "PING") // The clock is set back: what had expired may be there again.
	s.says(t, "set")
	require.Equal(t, []string{"a"}, s.reads)
	s.does(1400, "SET a y NX PX 100")
	s.says(t, "asked a y 100")
}

func TestOddSteps(t *testing.T) {
	for command, steps := range map[string][]string{
		"DEL a":                 {"odd a", "release a x #7"},
		"UNLINK b a":            {"odd a", "release a x #7"},
		"PEXPIRE a 500":         {"odd a", "extend a x 500 #7"},
		"PEXPIRE a 0":           {"odd a", "release a x #7"},
		"EXPIRE a 5":            {"odd a", "extend a x 5000 #7"},
		"SET a y PX 100":        {"odd a", "grant a y 100 #7"},
		"SET a x":               {"extend a x #7", "odd a"},
		"PERSIST a":             nil, // It is read.
		"APPEND a y":            nil,
		"SET __redlock__:f:a 6": {"odd a", "count a x #6"},
		"GET a":                 nil,
		"EVALSHA 1 1 a":         nil,
		"DEL b":                 nil,
		"DELIFEQ a x":           {"release a x #7"},
		"DELEX a ifeq x":        {"release a x #7"},
		"DELIFEQ a y":           nil,
		"DELEX a IFEQ y":        nil,
		"DELEX a IFNE x":        nil, // It is read.
		"SET b y":               nil,
		"SET a y NX PX 100":     nil,
	} {
		t.Run(command, func(t *testing.T) {
			s := newScene()
			s.knows(t)
			s.does(1010, "SET __redlock__:f:a 7")
			s.does(1020, "SET a x NX PX 100")
			s.told = nil
			s.does(1030, command)
			s.says(t, steps...)
		})
	}
	s := granted(t)
	value := "y"
	s.found("a", &value, 80)
	s.says(t, "odd a", "found a y 80")
	s.found("a", &value, 200)
	s.says(t, "odd a", "found a y 200")
	s.found("a", nil, -2)
	s.says(t, "odd a", "found a")
	s.found("a", nil, -2)
	s.says(t)
}

// A lock that is granted has a number of its own, whichever of its script's commands comes first.
func TestCounters(t *testing.T) {
	s := newScene()
	s.knows(t)
	lock := func(at int64, token string, n int, commands ...string) {
		s.does(at, fmt.Sprintf("EVALSHA 1 2 a __redlock__:f:a %s 100 %d", token, n))
		for _, c := range commands {
			s.does(at, c)
		}
	}
	set := func(n int) string { return fmt.Sprint(",SET __redlock__:f:a ", n) }
	lock(1010, "x", 7, ",SET a x NX PX 100", set(7))
	lock(1020, "x", 7, set(8)) // A raise.
	s.says(t, "grant a x 100", "count a x #7", "count a x #8")
	lock(1030, "x", 0, ",DEL a")
	lock(1040, "y", 9, set(9), ",SET a y NX PX 100")
	s.says(t, "release a x #8", "grant a y 100 #9")
	lock(1050, "y", 0, ",DEL a")
	lock(1060, "z", 9, set(9), ",SET a z NX PX 100")
	s.says(t, "release a y #9", "odd a", "grant a z 100 #9")
	lock(1070, "z", 0, ",DEL a")
	lock(1080, "x", 9, ",SET a x NX PX 100", set(9))
	s.says(t, "release a z #9", "grant a x 100 #9", "odd a", "count a x #9")
}

// After a gap, nothing is known.
func TestGap(t *testing.T) {
	s := granted(t)
	require.Equal(t, []string{"a"}, s.forget())
	s.does(1020, "EVALSHA 1 1 a x")
	s.does(1020, ",DEL a")
	s.says(t, "found a")
}

// A release close to the end is one, although the key may have expired by then.
func TestReleaseCloseToTheEnd(t *testing.T) {
	s := granted(t)
	s.does(1110, "EVALSHA 1 1 a x")
	s.does(1110, ",DEL a")
	s.says(t, "release a x")
	s.does(1120, "SET a y NX PX 100")
	s.does(1220, "EVALSHA 1 1 a y 100")
	s.does(1220, ",SET a y PX 100") // As node-redlock extends.
	s.says(t, "grant a y 100", "extend a y 100")
}

// The commands of a transaction see the time of their EXEC, which may be before that of the line.
func TestTransaction(t *testing.T) {
	s := granted(t)
	s.does(1100, "MULTI")
	s.does(1105, "ECHO slow")
	s.does(1130, "SET a y NX PX 100")
	s.does(1130, "EXEC")
	s.says(t, "asked a y 100")
}

func TestCommandsThatDoNothing(t *testing.T) {
	for _, command := range []string{"PEXPIRE a abc", "SET a y PX 0", "SET a y PX abc", "SET a y XX PX 100", "SET a y IFEQ z", "PEXPIRE a 50 GT", "LPUSH b a"} {
		s := granted(t)
		s.does(1020, command)
		s.says(t)
		if command != "PEXPIRE a abc" {
			require.Equal(t, []string{"a"}, s.reads, command) // What it did is not known.
		}
	}
}

func TestAllDatabasesAreFlushed(t *testing.T) {
	s := granted(t)
	s.carry(line{at: 1020 * ms, db: 1, args: []string{"FLUSHDB"}})
	s.carry(line{at: 1020 * ms, db: 1, args: []string{"FLUSHALL"}})
	s.says(t, "wiped")
	s.does(1030, "SET a y NX PX 100")
	s.reads = nil
	s.does(1040, "SWAPDB 0 1")
	s.says(t, "grant a y 100")
	require.Equal(t, []string{"a"}, s.reads)
}
