package redlock

import (
	"fmt"
	"strings"
)

// The marker of a node says for which client configuration, its fingerprint, it has been
// set up, and in which run of the server:
//
//	run_id since fingerprint    since: when the run was first seen, by the node's clock in
//	                            ms; 0: it may vote
//
// quarantineLua comes before a script that grants. Without its marker the node is new or has
// lost its data, with the one of another run it has restarted: then it does not grant
// until the time of quarantine is over. It must be looked up where the lock is granted:
// what is looked up once per connection fails behind a proxy that changes the server
// under its clients.
//
//	KEYS  …, the marker
//	ARGV  …, '1' to do no more than look, the fingerprint, the time of quarantine in ms
//	{'Q', ms}           abstained, for so long
//	{'F', fingerprint}  refused: the node has been set up for another configuration
//	1                   after a look
const quarantineLua = runLua + `
  local state = redis.pcall('GET', marker)
  if type(state) == 'table' and not string.find(state.err, 'WRONGTYPE', 1, true) then return state end
  if type(state) ~= 'string' then state = '' end
  local seen, since, other = string.match(state, '^([0-9a-f]+) (%d+) (.*)$')
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  since = tonumber(since)
  if seen ~= run or since > now then
    redis.call('SET', marker, string.format('%s %.0f %s', run, now, other or print))
    since = now
  end
  if other and other ~= print then return {'F', other} end
  if since + span > now then return {'Q', since + span - now} end
  if since > 0 then redis.call('SET', marker, run .. ' 0 ' .. print) end
`

const guardLua = `
local marker, span, print, look = table.remove(KEYS), tonumber(table.remove(ARGV)), table.remove(ARGV), table.remove(ARGV)
`

// slowScripts are the scripts that grant, each after a look.
var slowScripts = withGuard(guardLua + quarantineLua + `
if look == '1' then return 1 end
`)

// fastScripts are the same for a server in this run. To look takes as long as all the
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
func fastScripts(run, marker, fingerprint string) map[*script]*script {
	return withGuard("#!lua\n-- " + digest(marker+"\n"+fingerprint) + guardLua + `
if look == '1' or redis.pcall('GET', marker) ~= '` + run + ` 0 ' .. print then
` + quarantineLua + `
if look == '1' then return 1 end
end
`)
}

func withGuard(guard string) map[*script]*script {
	guarded := make(map[*script]*script)
	for _, s := range handshakeScripts {
		if s.session {
			guarded[s] = newScript(s.name, guard+s.sourceArg.(string), s.decode)
		}
	}
	return guarded
}

func decodeGuarded(decode func(any) outcome) func(any) outcome {
	return func(reply any) outcome {
		if r, ok := reply.([]any); ok && len(r) == 2 {
			why, _ := r[0].([]byte)
			switch detail := r[1].(type) {
			case int64:
				if string(why) == "Q" && detail > 0 {
					left := millis(detail)
					return outcome{err: &quarantineError{left}, holderTTL: left, abstained: true}
				}
			case []byte:
				if string(why) == "F" {
					return outcome{err: fmt.Errorf("the node is set up for another configuration, %s; see Admit", detail), abstained: true}
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

// runScript answers the run_id.
var runScript = newScript("run", runLua+`
return run
`, func(reply any) outcome {
	if run, ok := reply.([]byte); ok && isRun(string(run)) {
		return outcome{stance: yes, value: string(run)}
	}
	return unexpected("run", reply)
})

// isRun reports whether this is the run_id of a server that tells the truth about it.
func isRun(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, s[:1]) != ""
}

// admitScript ends the quarantine of a run, and adopts the configuration.
//
//	KEYS  the marker
//	ARGV  fingerprint, run_id
//	1     done
//	0     refused: it is another run
var admitScript = newScript("admit", runLua+`
if run ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], run .. ' 0 ' .. ARGV[1])
return 1
`, decodeHeld("admit"))
