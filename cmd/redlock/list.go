package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock/stored"
)

// scanCount is how many keys a step of SCAN looks at, and lookCount how many resources a node is
// asked about at once. A node serves nobody else while it carries out a command, or several
// that came together: both take it about a tenth of a millisecond.
const scanCount, lookCount = 50, 4

// longestPause bounds the pause after each step, which is as long as the step took. A node that is
// slow since it is far away needs no longer one.
const longestPause = 5 * time.Millisecond

func (t *tool) listCommand() *cobra.Command {
	cmd := manual("list")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pattern := "*"
		if len(args) > 1 {
			return usagef("unexpected argument %q", args[1])
		}
		if len(args) == 1 {
			pattern = args[0]
		}
		// A server takes what is not closed for closed at the end, and lists less than was meant.
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return usagef(`PATTERN %q is malformed: close each [ with a ], and put \ before a character that is meant as it is`, pattern)
		}
		return t.onNodes(nil, func(peers []*peer, _ stored.Keys) error { return t.list(cmd.Context(), peers, pattern) })
	}
	return cmd
}

// A lister goes through the nodes one after the other. It remembers nothing of what it has
// listed: a lock is listed while it is found on the first of the nodes that have it.
type lister struct {
	tool   *tool
	keys   stored.Keys
	match  string // what the keys are like, as SCAN takes it
	peers  []*peer
	failed []bool // could not be read to the end
	header bool
}

func (t *tool) list(ctx context.Context, peers []*peer, pattern string) error {
	k := stored.Keys{Prefix: t.global.prefix}
	l := &lister{tool: t, keys: k, match: escapeGlob(k.Prefix) + pattern, peers: peers, failed: make([]bool, len(peers))}
	failures := 0
	for i, p := range peers {
		if err := l.scan(ctx, i); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l.failed[i] = true
			failures++
			t.note(p.node.Name + ": " + causeOf(err))
		}
	}
	t.tellSets(ctx, peers, k)
	// A lock that a quorum has is on one of any n - need + 1 nodes.
	if need := len(peers)/2 + 1; failures >= need {
		return ended(exitNoQuorum)
	}
	if !l.header && !t.global.json { // On standard error: a script reads an empty list.
		t.note(fmt.Sprintf("no locks match %s with the prefix %q", printable(pattern), k.Prefix))
	}
	return nil
}

// scan lists the locks on one node that are on none of those before.
func (l *lister) scan(ctx context.Context, at int) error {
	p, cursor := l.peers[at], "0"
	p.failure = nil // It may be back.
	for {
		begun := time.Now()
		answers, err := p.do(ctx, request{"SCAN", []any{cursor, "MATCH", l.match, "COUNT", scanCount}})
		if err != nil {
			return err
		}
		var keys []string
		if cursor, keys, err = decodeScan(answers[0]); err != nil {
			return err
		}
		for some := range slices.Chunk(keys, scanCount) { // A step may return more than it was asked for.
			found, err := p.locked(ctx, l.keys, l.resources(some))
			if err != nil {
				return err
			}
			l.listFound(ctx, at, l.notBefore(ctx, at, found))
		}
		if cursor == "0" || l.tool.out.err != nil {
			return nil
		}
		// The nodes have at least as much time for others as they have spent on this.
		select {
		case <-time.After(min(time.Since(begun), longestPause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notBefore are those of the resources that none of the nodes before has a token for: the
// others were listed there. This is cheaper than to look at all of them again.
func (l *lister) notBefore(ctx context.Context, at int, resources []string) []string {
	for i := range at {
		if l.failed[i] {
			continue
		}
		there, err := l.peers[i].locked(ctx, l.keys, resources)
		if err != nil {
			continue // A lock is better listed twice than not at all.
		}
		resources = slices.DeleteFunc(resources, func(r string) bool { return slices.Contains(there, r) })
	}
	return resources
}

func decodeScan(answer any) (cursor string, keys []string, err error) {
	parts, err := redis.Values(answer, nil) // The error may be the server's.
	if err != nil {
		return "", nil, err
	}
	_, err = redis.Scan(parts, &cursor, &keys)
	return cursor, keys, err
}

// findScript says which of the keys have a token. It reads no more of a value than a token has, and
// one byte: a value of any length may begin like a token, and is not to be read as a whole later.
//
//	KEYS  keys of any type
//	ARGV  the longest length of a token
//	{the number of a key that has one, …}
const findScript = `
local found = {}
for i = 1, #KEYS do
  local v = redis.pcall('GETRANGE', KEYS[i], 0, ARGV[1])
  if type(v) == 'string' and #v >= 32 and #v <= tonumber(ARGV[1]) and string.match(v, '^[0-9a-f]+()') == 33 and
    (#v == 32 or string.sub(v, 33, 39) == ' owner=') then
    found[#found + 1] = i
  end
end
return found
`

func (l *lister) resources(keys []string) []string {
	var found []string
	for _, key := range keys {
		if res, ok := l.keys.Resource(key); ok {
			found = append(found, res)
		}
	}
	return found
}

// locked are those of the resources that a node has a token for.
func (p *peer) locked(ctx context.Context, k stored.Keys, resources []string) ([]string, error) {
	if len(resources) == 0 {
		return nil, nil
	}
	args := []any{findScript, len(resources)}
	for _, res := range resources {
		args = append(args, k.Lock(res))
	}
	answers, err := p.do(ctx, request{"EVAL", append(args, stored.MaxToken)})
	if err != nil {
		return nil, err
	}
	numbers, err := redis.Ints(answers[0], nil)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, n := range numbers {
		if n < 1 || n > len(resources) {
			return nil, errMeaningless
		}
		found = append(found, resources[n-1])
	}
	return found, nil
}

// listFound lists resources that were found on a node.
func (l *lister) listFound(ctx context.Context, at int, resources []string) {
	for some := range slices.Chunk(resources, lookCount) {
		views := look(ctx, l.peers, l.keys, some, 0)
		for i := range views {
			if l.first(&views[i]) == at {
				l.write(&views[i])
			}
		}
	}
}

// first is the first node that has a token and has been read, or is being read.
func (l *lister) first(v *view) int {
	for i, s := range v.sights {
		if s.err == nil && !l.failed[i] && stored.CheckToken(s.token) == nil {
			return i
		}
	}
	return -1 // It was released meanwhile.
}

func (l *lister) write(v *view) {
	w := l.tool.out
	j := v.json()
	if l.tool.global.json {
		j.Nodes = nil // redlock status has them.
		writeJSON(w, j)
		return
	}
	const row = "%-32s %s %9s %4s %17s %8s  %s\n"
	s := l.tool.styleFor(w)
	if !l.header {
		l.header = true
		printf(w, "%s", s.bold(fmt.Sprintf(row, "RESOURCE", "STATE   ", "TTL", "ON", "FENCE", "WAITING", "OWNER")))
	}
	ttl, fence, waiting := "-", "-", "-"
	if j.TTLMS != nil && *j.TTLMS >= 0 {
		ttl = shortly(msOf(*j.TTLMS))
	}
	if j.Fence > 0 {
		fence = fmt.Sprint(j.Fence)
	}
	if j.Waiting >= 0 {
		waiting = fmt.Sprint(j.Waiting)
	}
	state := fmt.Sprintf("%-8s", j.State)
	if !j.Held {
		state = s.yellow(state)
	}
	on := fmt.Sprintf("%d/%d", j.On, len(v.sights))
	printf(w, row, printable(j.Resource), state, ttl, on, fence, waiting, cmp.Or(j.Owner, j.Holder))
}

// escapeGlob takes the meaning from what has one in a pattern.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}
