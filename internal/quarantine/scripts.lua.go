package quarantine

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// The marker of a node says in which run of the server it was written, whether the node
// votes, with how many nodes its clients work, and the largest maxTTL of a client that
// has asked this node for a lock:
//
//	run_id votes|waits nodes maxTTL since    maxTTL in ms; since: when the run was first
//	                                         seen, by the node's clock in ms; 0: admitted
//
// quarantineLua comes before a script that grants. Without its marker the node is new or has
// lost its data, with the one of another run it has restarted: then it does not grant
// until the time of quarantine is over. It must be looked up where the lock is granted:
// what is looked up once per connection fails behind a proxy that changes the server
// under its clients.
//
// A client with a larger maxTTL than the marker's raises it, before it gets a lock. The
// quarantine then lasts for the larger one, also if the smaller one's is over: so since stays
// in the marker when the node votes. It counts from since, not from when that client came:
// a lock that was forgotten was granted before since. What clients of the larger maxTTL
// have been granted later, they were granted by other nodes, or with this marker. A
// smaller maxTTL changes nothing, and neither does a client with another number of nodes.
//
// The node's clock may have been set back: then the time of quarantine begins again, or it
// would last as much longer.
//
//	KEYS  …, the marker
//	ARGV  …, '1' to do no more than look, the number of nodes, maxTTL in ms
//	{'Q', ms}     abstained, for so long
//	{'F', nodes}  refused: the node has been set up for clients with so many nodes
//	1             after a look
const quarantineLua = runLua + `
  local state = redis.pcall('GET', marker)
  if type(state) == 'table' and not string.find(state.err, 'WRONGTYPE', 1, true) then return state end
  if type(state) ~= 'string' then state = '' end
  local seen, may, setup, longest, since = string.match(state, '^([0-9a-f]+) (%l+) (%d+) (%d+) (%d+)$')
  local votes = seen == run and may == 'votes'
  setup, longest, since, maxTTL = setup or nodes, tonumber(longest or 0), tonumber(since), tonumber(maxTTL)
  if setup == nodes and longest < maxTTL then longest, votes = maxTTL, false end
  local left = 0
  if not votes then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    if seen ~= run or since > now then since = now end
    left = since + longest + ` + quarantineMarginLua + ` - now
    votes = left <= 0
  end
  local text = string.format('%s %s %s %.0f %.0f', run, votes and 'votes' or 'waits', setup, longest, since)
  if text ~= state then redis.call('SET', marker, text) end
  if setup ~= nodes then return {'F', tonumber(setup)} end
  if not votes then return {'Q', left} end
`

// quarantineMarginLua is Margin in ms.
const quarantineMarginLua = `1000`

// grantArgs come last of the arguments of a script that grants.
func grantArgs(d *Dialect) []any { return []any{"0", d.nodes, d.maxTTL} }

// lookCommand runs a script that grants only to look at the marker.
func lookCommand(s *node.Script, d *Dialect) []any {
	return []any{"EVAL", s.Source, 1, d.marker, "1", d.nodes, d.maxTTL}
}

// takeLua takes what is the quarantine's from KEYS and ARGV. table.remove would take
// longer, and so would tonumber; the arithmetic that maxTTL is used in does without.
const takeLua = `
local k, a = #KEYS, #ARGV
local marker, maxTTL, nodes, look = KEYS[k], ARGV[a], ARGV[a - 1], ARGV[a - 2]
KEYS[k], ARGV[a], ARGV[a - 1], ARGV[a - 2] = nil, nil, nil, nil
`

// Scripts are the scripts that grant, with a look at the marker before each.
type Scripts struct {
	granting []*node.Script // as they are without quarantine
	slow     map[*node.Script]*node.Script
}

// Wrap returns those scripts that grant, each with a look at the marker before it, and the
// others. The first that grants is the one by which a handshake looks at the marker.
func Wrap(scripts []*node.Script) (wrapped *Scripts, others []*node.Script) {
	wrapped = new(Scripts)
	for _, s := range scripts {
		if s.Grants {
			wrapped.granting = append(wrapped.granting, s)
		} else {
			others = append(others, s)
		}
	}
	wrapped.slow = wrapped.with(takeLua + quarantineLua + `
if look == '1' then return 1 end
`)
	return wrapped, others
}

// Slow returns the script that looks itself, each time.
func (s *Scripts) Slow(script *node.Script) *node.Script { return s.slow[script] }

// Fast returns the same for a server in this run. To look takes as long as all the
// rest of a lock, because of the INFO. But servers from Redis 7 on forget their scripts
// when they end. So the text of a fast script names the run for which it was made, and
// where the server knows the text, and has the marker of that run, that is the run.
//
// For that to be true, no text may get into another run whose marker is still the old
// one, as it is after a restart from a snapshot. A proxy can hide a restart at any
// moment. So a fast text is sent only in the handshake, after a look that succeeded, and
// by an EVAL that looks itself, and so corrects the marker in the same step; never by
// SCRIPT LOAD, and not when the server has forgotten it: then the slow one serves. The
// text is one marker's: the look has corrected no other. And a server caches a script
// before it runs it, also one that then fails: but not one with a shebang, which it
// refuses before, where it refuses writes.
//
// The fast text finds that the node votes, and that the marker knows of a maxTTL as
// large as this client's. Clients with different ones share the text.
func (s *Scripts) Fast(run, marker, nodes string) map[*node.Script]*node.Script {
	return s.with("#!lua\n-- " + nameOf(marker) + takeLua + `
local state = redis.pcall('GET', marker)
local longest = state and not state.err and string.match(state, '^` + run + ` votes ` + nodes + ` (%d+) ')
if look == '1' or not longest or longest - maxTTL < 0 then
` + quarantineLua + `
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

// nameOf stands for a marker in a text.
func nameOf(marker string) string {
	sum := sha1.Sum([]byte(marker))
	return hex.EncodeToString(sum[:6])
}

// Grants makes a script one of those that quarantine is about.
func Grants(s *node.Script) *node.Script {
	s.Grants = true
	s.Decode = decodeWrapped(s.Decode)
	return s
}

func decodeWrapped(decode func(any) node.Outcome) func(any) node.Outcome {
	return func(reply any) node.Outcome {
		if r, ok := reply.([]any); ok && len(r) == 2 {
			why, _ := r[0].([]byte)
			if detail, ok := r[1].(int64); ok && detail > 0 {
				switch string(why) {
				case "Q":
					left := time.Duration(min(detail, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
					return node.Outcome{Err: &quarantineError{left}, HolderTTL: left, Abstained: true}
				case "F":
					return node.Outcome{Err: &mismatchError{detail}, Abstained: true}
				}
			}
		}
		return decode(reply)
	}
}

const runLua = `
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:([0-9a-f]+)')
if not run or #run ~= 40 or run == string.rep(string.sub(run, 1, 1), 40) then
  return redis.error_reply('NOPERM quarantine takes the right to INFO, and a server that shows its run_id')
end
`

// RunScript answers the run_id.
var RunScript = node.NewScript("run", runLua+`
return run
`, func(reply any) node.Outcome {
	if run, ok := reply.([]byte); ok && conn.IsRun(string(run)) {
		return node.Outcome{Stance: node.Yes, Value: string(run)}
	}
	return node.Unexpected("run", reply)
})

func runCommand() node.Command { return node.Command{Script: RunScript} }

// AdmitScript ends the quarantine of a run, and adopts the configuration: also a smaller
// maxTTL. No lock that was granted before the run matters any more, to whatever client.
//
//	KEYS  the marker
//	ARGV  run_id, number of nodes, maxTTL in ms
//	1     done
//	0     refused: it is another run
var AdmitScript = node.NewScript("admit", runLua+`
if run ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], run .. ' votes ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' 0')
return 1
`, func(reply any) node.Outcome {
	switch reply {
	case int64(1):
		return node.Outcome{Stance: node.Yes}
	case int64(0):
		return node.Outcome{Stance: node.No, Err: errors.New("it has restarted meanwhile")}
	}
	return node.Unexpected("admit", reply)
})

// admitCommand is for the run that runCommand has answered.
func admitCommand(d *Dialect, run string) node.Command {
	return node.Command{Script: AdmitScript, Keys: []any{d.marker}, Args: []any{run, d.nodes, d.maxTTL}}
}

var markerRE = regexp.MustCompile(`^([0-9a-f]+) ([a-z]+) ([0-9]{1,9}) ([0-9]{1,12}) ([0-9]{1,15})$`)

// A Marker is what quarantineLua stores. The zero value stands for none, and for one that is
// not to be understood.
type Marker struct {
	Run    string // the run_id of the server that it was written in
	Votes  bool
	Nodes  int           // how many the clients work with
	MaxTTL time.Duration // the largest that the node has heard of
	Since  time.Time     // by the node's clock
}

// ParseMarker reads what quarantineLua stores.
func ParseMarker(text string) Marker {
	parts := markerRE.FindStringSubmatch(text)
	if parts == nil {
		return Marker{}
	}
	nodes, _ := strconv.Atoi(parts[3])
	maxTTL, _ := strconv.ParseInt(parts[4], 10, 64)
	since, _ := strconv.ParseInt(parts[5], 10, 64)
	return Marker{Run: parts[1], Votes: parts[2] == "votes", Nodes: nodes, MaxTTL: time.Duration(maxTTL) * time.Millisecond, Since: time.UnixMilli(since)}
}
