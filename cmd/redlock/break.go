package main

import (
	"bufio"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/stored"
)

func (t *tool) breakCommand() *cobra.Command {
	var yes bool
	cmd := manual("break")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("want exactly one resource, not %d", len(args))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if t.global.json && !yes {
			return usagef("--json needs --yes, as there is nobody to ask")
		}
		return t.onNodes(args, func(peers []*peer, k stored.Keys) error {
			return t.breakLock(cmd.Context(), peers, k, args, yes)
		})
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// breakLock is redlock break. args is the one resource.
func (t *tool) breakLock(ctx context.Context, peers []*peer, k stored.Keys, args []string, yes bool) error {
	before := look(ctx, peers, k, args, shownWaiters)[0]
	found := before.holdings()
	if !t.global.json || len(found) == 0 {
		t.show(t.out, []view{before})
	}
	if len(found) == 0 {
		if !t.global.json && !before.unknown() {
			printf(t.out, "%s\n", "there is nothing to delete")
		}
		return ended(max(before.exit(), exitNo))
	}
	if stored.CheckToken(found[0].token) != nil {
		t.note("this is no token of this library: it may be a lock of another one, or something else altogether")
	}
	if !yes && !t.confirm("Delete these keys? Whoever works under the lock is not stopped by it. [y/N] ") {
		printf(t.out, "%s\n", "nothing was deleted")
		return ended(exitNo)
	}
	for _, h := range found {
		if err := t.deleteToken(ctx, peers, k.Lock(args[0]), args, h.token); err != nil {
			return err
		}
	}
	after := look(ctx, peers, k, args, 0)[0]
	return t.showBroken(&before, &after)
}

// confirm asks, and reports whether the answer is yes.
func (t *tool) confirm(question string) bool {
	printf(t.out, "%s", question)
	line, err := bufio.NewReader(t.in).ReadString('\n')
	if err != nil {
		printf(t.out, "\n")
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// deleteScript deletes a key if it still has the value, as far as lookScript has shown it.
const deleteScript = `
local v = redis.call('GET', KEYS[1])
if v and string.sub(v, 1, 256) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`

// deleteToken deletes the keys that have a token. The library does it for a token that is one
// of its own, and tells those that wait.
func (t *tool) deleteToken(ctx context.Context, peers []*peer, key string, resources []string, token string) error {
	if stored.CheckToken(token) == nil {
		r, _, err := t.global.open()
		if err != nil {
			return err
		}
		defer t.close(ctx, r)
		err = r.Release(ctx, resources, token)
		// What is left of it the nodes are asked for afterwards.
		if err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
			return err
		}
		return nil
	}
	for _, p := range peers { // A node that does not answer shows afterwards.
		_, _ = p.do(ctx, request{"EVAL", []any{deleteScript, 1, key, token}})
	}
	return nil
}

// showBroken says what has become of the keys, node by node.
func (t *tool) showBroken(before, after *view) error {
	type nodeJSON struct {
		Node   string `json:"node"`
		Result string `json:"result"` // deleted, free, another or unknown
	}
	s := t.styleFor(t.out)
	var nodes []nodeJSON
	gone := 0
	for i, b := range before.sights {
		a := after.sights[i]
		result := "deleted"
		switch {
		case a.err != nil:
			result = "unknown"
		case a.token != "" && a.token == b.token:
			result = "not deleted"
		case b.token == "" && a.token == "":
			result = "free"
		case a.token != "" && b.token == "":
			result = "another"
		}
		if result != "unknown" && result != "not deleted" {
			gone++
		}
		nodes = append(nodes, nodeJSON{b.node, result})
		if !t.global.json {
			printf(t.out, "  %s: %s\n", b.node, result)
		}
	}
	broken := gone >= before.need
	if t.global.json {
		writeJSON(t.out, struct {
			Resource string     `json:"resource"`
			Broken   bool       `json:"broken"`
			Nodes    []nodeJSON `json:"nodes"`
		}{before.resource, broken, nodes})
	}
	if !broken {
		t.note("too few nodes have confirmed it: it may be repeated")
		return ended(exitNoQuorum)
	}
	if !t.global.json {
		printf(t.out, "%s\n", s.green("the lock is broken"))
	}
	return nil
}
