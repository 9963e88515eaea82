package quarantine

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/internal/brief"
	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// The texts of the scripts are the .lua files here. checkText comes before a script that grants.
var (
	//go:embed check.lua
	checkText string

	//go:embed run.lua
	runText string

	//go:embed admit.lua
	admitText string
)

// lookCommand returns a command that runs a script that grants only to look at the marker.
func lookCommand(s *node.Script, d *Dialect) []any {
	return []any{"EVAL", s.Source, 1, d.marker, "1", d.nodes, d.maxTTL}
}

// takeLua takes the quarantine's values out of KEYS and ARGV. table.remove would take longer, and so would tonumber;
// the arithmetic with maxTTL needs neither.
const takeLua = `
local k, a = #KEYS, #ARGV
local marker, maxTTL, nodes, look = KEYS[k], ARGV[a], ARGV[a - 1], ARGV[a - 2]
KEYS[k], ARGV[a], ARGV[a - 1], ARGV[a - 2] = nil, nil, nil, nil
`

// Scripts are the scripts that grant, with a look at the marker before each.
type Scripts struct {
	granting []*node.Script // in their form without quarantine
	slow     map[*node.Script]*node.Script
}

// Wrap returns the scripts that grant, each with a look at the marker before it, and the others. A handshake looks at
// the marker by the first one that grants.
func Wrap(scripts []*node.Script) (wrapped *Scripts, others []*node.Script) {
	wrapped = new(Scripts)
	for _, s := range scripts {
		if s.Grants {
			wrapped.granting = append(wrapped.granting, s)
		} else {
			others = append(others, s)
		}
	}
	look := takeLua + node.Code(checkText) + `
if look == '1' then return 1 end
`
	wrapped.slow = wrapped.with(look)
	wrapped.slow[lookScript] = node.NewScript(lookScript.Name, look+lookScript.Source.(string), lookScript.Decode)
	return wrapped, others
}

// Slow returns the form of the script that looks at the run each time.
func (s *Scripts) Slow(script *node.Script) *node.Script { return s.slow[script] }

// Fast returns the scripts' forms for a server in this run. A look takes as long as all the rest of a lock, because of
// the INFO. But servers from Redis 7 on forget their scripts when they end. So the text of a fast script names the run
// for which it was made: a server that knows the text, and has the marker of that run, is in that run.
//
// For that to be true, no text may get into another run whose marker is still the old one, as after a restart from a
// snapshot. A proxy can hide a restart at any moment. So a fast text is sent only in the handshake, after a look that
// succeeded, and by an EVAL that looks itself, and so corrects the marker in the same step. It is never sent by SCRIPT
// LOAD, nor after the server has forgotten it: then the slow form serves. The text names one marker, as the look has
// corrected no other. A server caches a script before it runs it, even if the script then fails. But one with a shebang
// is refused before that, where writes are refused.
//
// The fast text checks that the node votes, and that the marker knows of a maxTTL as large as this client's. Clients
// with different ones share the text. While clients of two sizes come, those of the second need another look at the
// marker's text, and no INFO.
func (s *Scripts) Fast(run, marker, nodes string) map[*node.Script]*node.Script {
	return s.with("#!lua\n-- " + nameOf(marker) + takeLua + `
local state = redis.pcall('GET', marker)
local longest = state and not state.err and (string.match(state, '^` + run + ` votes ` + nodes + ` (%d+) ')
  or string.match(state, '^` + run + ` votes %d+ (%d+) %d+ ` + nodes + `$'))
if look == '1' or not longest or longest - maxTTL < 0 then
` + node.Code(checkText) + `
if look == '1' then return 1 end
end
`)
}

func (s *Scripts) with(look string) map[*node.Script]*node.Script {
	wrapped := make(map[*node.Script]*node.Script, len(s.granting))
	for _, g := range s.granting {
		wrapped[g] = node.NewScript(g.Name, look+g.Source.(string), g.Decode)
	}
	return wrapped
}

// nameOf returns a name for a marker that fits into a text.
func nameOf(marker string) string {
	sum := sha1.Sum([]byte(marker))
	return hex.EncodeToString(sum[:6])
}

// Granting marks a script by which a node grants something, which it does not do in quarantine. A Redlock without
// quarantine sends the script unchanged. With quarantine, the script's text begins with a look at the node's marker,
// and Decode also reads the look's refusal.
func Granting(s *node.Script) *node.Script {
	s.Grants = true
	s.Decode = decodeWrapped(s.Decode)
	return s
}

func decodeWrapped(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		if r, ok := reply.([]any); ok && (len(r) == 2 || len(r) == 3) {
			why, _ := r[0].([]byte)
			other, _ := r[len(r)-1].(int64)
			if detail, ok := r[1].(int64); ok && detail > 0 {
				switch string(why) {
				case "Q":
					left := time.Duration(min(detail, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
					return node.Outcome{Err: &quarantineError{left}, Holder: &node.Holder{TTL: left}, Abstained: true}
				case "F":
					return node.Outcome{Err: &mismatchError{Marker{Nodes: int(detail), Other: int(other)}}, Holder: new(node.Holder), Abstained: true}
				}
			}
		}
		return decode(reply)
	}
}

// LookCommand grants nothing: it only finds out whether the node abstains. lookScript has only a slow form.
var (
	LookCommand = node.Command{Script: lookScript}
	lookScript  = Granting(node.NewScript("look", "return 1", func(any) node.Outcome { return node.Outcome{Stance: node.Yes} }))
)

// RunScript returns the run_id.
var RunScript = node.NewScript("run", node.Code(runText), func(reply any) node.Outcome {
	if run, ok := reply.([]byte); ok && conn.IsRun(string(run)) {
		return node.Outcome{Stance: node.Yes, Value: string(run)}
	}
	return node.Unexpected("run", reply)
})

// AdmitScript ends the quarantine of a run, and adopts the configuration.
var AdmitScript = node.NewScript("admit", node.Code(admitText), func(reply any) node.Outcome {
	switch reply {
	case int64(1):
		return node.Outcome{Stance: node.Yes}
	case int64(0):
		return node.Outcome{Stance: node.No, Err: errors.New("it has restarted meanwhile")}
	}
	return node.Unexpected("admit", reply)
})

var markerRE = regexp.MustCompile(`^([0-9a-f]+) ([a-z]+) ([0-9]{1,9}) ([0-9]{1,12}) ([0-9]{1,15})(?: ([0-9]{1,9}))?$`)

// A Marker is the value that check.lua stores. The zero value stands for none, or for one that cannot be read.
type Marker struct {
	Run    string // the run_id of the server that it was written in
	Votes  bool
	Nodes  int           // how many nodes the clients work with
	Other  int           // the neighbour of Nodes that other clients work with; 0 for none
	MaxTTL time.Duration // the largest maxTTL that the node has heard of
	Since  time.Time     // by the node's clock
}

// ParseMarker reads the value that check.lua stores.
func ParseMarker(text string) Marker {
	parts := markerRE.FindStringSubmatch(text)
	if parts == nil {
		return Marker{}
	}
	nodes, _ := strconv.Atoi(parts[3])
	maxTTL, _ := strconv.ParseInt(parts[4], 10, 64)
	since, _ := strconv.ParseInt(parts[5], 10, 64)
	other, _ := strconv.Atoi(parts[6])
	return Marker{
		Run: parts[1], Votes: parts[2] == "votes", Nodes: nodes, Other: other,
		MaxTTL: time.Duration(maxTTL) * time.Millisecond, Since: time.UnixMilli(since),
	}
}

// Knows reports whether clients with that many nodes have come, or were admitted.
func (m Marker) Knows(nodes int) bool { return nodes == m.Nodes || nodes == m.Other }

// Fits reports whether the node grants locks to clients with that many nodes.
func (m Marker) Fits(nodes int) bool {
	return m.Knows(nodes) || m.Other == 0 && (nodes == m.Nodes+1 || nodes == m.Nodes-1)
}

// Sizes returns a text that says how many nodes the clients have.
func (m Marker) Sizes() string {
	if m.Other == 0 || m.Other == m.Nodes {
		return brief.Count(m.Nodes, "node")
	}
	return fmt.Sprintf("%d or %s", min(m.Nodes, m.Other), brief.Count(max(m.Nodes, m.Other), "node"))
}
