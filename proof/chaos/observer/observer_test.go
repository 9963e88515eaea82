package observer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// A session is a client's connection.
type session struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Scanner
}

func (s session) ask(kind history.Kind, fence, value int64) history.Event {
	s.t.Helper()
	_, err := s.conn.Write(protocol.Line(history.Event{Kind: kind, Resources: []string{"a"}, Fence: fence, Value: value}))
	require.NoError(s.t, err)
	require.True(s.t, s.lines.Scan())
	var e history.Event
	require.NoError(s.t, json.Unmarshal(s.lines.Bytes(), &e))
	require.Positive(s.t, e.End)
	return e
}

// watched returns an observer, a session with it, and what ends it and returns what it has written.
func watched(t *testing.T) (*Observer, session, func() []history.Event) {
	t.Helper()
	var out bytes.Buffer
	o := New(&out, history.Monotonic(), func(history.Event) {})
	addr, err := o.Listen()
	require.NoError(t, err)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	return o, session{t, conn, bufio.NewScanner(conn)}, func() []history.Event {
		require.NoError(t, o.Close())
		events, err := history.Parse(&out)
		require.NoError(t, err)
		return events
	}
}

func TestRegisterRefusesWhoIsBehind(t *testing.T) {
	o, s, end := watched(t)
	require.True(t, s.ask(history.Write, 5, 1).OK)
	require.True(t, s.ask(history.Read, 7, 0).OK, "a read raises the fence, too")
	require.False(t, s.ask(history.Write, 6, 2).OK)
	require.False(t, s.ask(history.Read, 6, 0).OK)
	require.EqualValues(t, 1, s.ask(history.Read, 7, 0).Value)
	require.True(t, s.ask(history.Write, 0, 3).OK, "who has no fence always passes")
	o.LogRegisters()
	events := end()
	require.Len(t, events, 7)
	last := events[6]
	require.Equal(t, history.Register, last.Kind)
	require.EqualValues(t, 3, last.Value)
	require.EqualValues(t, 7, last.Fence)
}

// A process that is killed may leave half a line.
func TestHalfALineIsNone(t *testing.T) {
	o, s, end := watched(t)
	s.ask(history.Read, 1, 0)
	_, err := s.conn.Write([]byte("{\"kind\":"))
	require.NoError(t, err)
	require.Error(t, o.Drain(0), "it is connected")
	require.NoError(t, s.conn.Close())
	require.NoError(t, o.Drain(time.Minute))
	require.Len(t, end(), 1)
}

// What cannot be read is missing in the history: whoever judges it has to know.
func TestALineThatCannotBeReadIsAnError(t *testing.T) {
	for what, line := range map[string]string{"half of one": "{\"kind\":\n{}\n", "too long": strings.Repeat(" ", 1<<23)} {
		o, s, _ := watched(t)
		s.ask(history.Read, 1, 0)
		_, _ = s.conn.Write([]byte(line)) // The observer may hang up first.
		require.NoError(t, s.conn.Close())
		require.NoError(t, o.Drain(time.Minute))
		require.Error(t, o.Close(), what)
	}
}
