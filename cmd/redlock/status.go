package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed6c881748/redlock/redlock/stored"
)

func (t *tool) statusCommand() *cobra.Command {
	var permits int
	cmd := manual("status")
	cmd.Args = some("resource")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkPermits(cmd, permits, 0); err != nil {
			return err
		}
		return t.onNodes(args, func(peers []*peer, k stored.Keys) error {
			return ended(t.statusOf(cmd.Context(), peers, k, args, permits))
		})
	}
	permitsFlag(cmd, &permits, "each RESOURCE is the name of a semaphore of `K` permits, from 1 to 256")
	return cmd
}

// statusOf shows the resources, or the permits of semaphores, and returns the exit code.
func (t *tool) statusOf(ctx context.Context, peers []*peer, k stored.Keys, names []string, permits int) int {
	views := lookAll(ctx, peers, k, names, permits)
	for some := range slices.Chunk(views, max(permits, 1)) {
		t.show(t.out, some)
	}
	t.showNextSteps(t.out, views)
	t.tellSets(ctx, peers, k)
	code := exitOK
	for i := range views {
		code = max(code, views[i].exit())
	}
	return code
}

// lookAll looks at resources, or, with permits, at the slots of semaphores.
func lookAll(ctx context.Context, peers []*peer, k stored.Keys, names []string, permits int) (views []view) {
	if permits == 0 {
		return look(ctx, peers, k, names, shownWaiters)
	}
	for _, name := range names {
		views = append(views, lookAtPermits(ctx, peers, k, name, permits)...)
	}
	return views
}

// exit is the exit code for what is known of a resource.
func (v *view) exit() int {
	if _, ok := v.held(); ok {
		return exitOK
	}
	if v.unknown() {
		return exitNoQuorum
	}
	return exitNo
}

// show writes the view of a resource, or those of the slots of a semaphore, as text or JSON: w is the answer, or what
// becomes a part of it.
func (t *tool) show(w io.Writer, views []view) {
	s := t.styleFor(t.out)
	switch v := &views[0]; {
	case t.global.json:
		for i := range views {
			writeJSON(w, views[i].json())
		}
	case v.semaphore != "":
		t.showPermits(w, views)
	default:
		printf(w, "%s  %s\n", s.bold(printable(v.resource)), v.summary(s))
		holder, _ := v.held()
		lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, n := range v.sights {
			printf(lines, "  %s\t%s\n", n.node, n.text(s, holder.token))
		}
		_ = lines.Flush()
		for _, j := range v.waiters() {
			printf(w, "  waiting: %s %s, in line on %d of %d nodes\n",
				printable(j.Name), s.dim("for "+shortly(msOf(j.WaitedMS))), j.Nodes, len(v.sights))
		}
	}
}

// showNextSteps writes what to do about what is wrong in views.
func (t *tool) showNextSteps(w io.Writer, views []view) {
	steps := nextSteps(views)
	if t.global.json || len(steps) == 0 {
		return
	}
	printf(w, "\n%s\n", t.styleFor(t.out).bold("what to do"))
	for _, step := range steps {
		printf(w, "  %s\n", step)
	}
}

// summary says in one line what the nodes amount to.
func (v *view) summary(s style) string {
	text := ""
	h, ok := v.held()
	found := v.holdings()
	switch {
	case ok:
		text = fmt.Sprintf("%s by %s %s, on %d of %d nodes (%d needed)",
			s.green("held"), who(h.token), lasting(h.ttl), h.nodes, len(v.sights), v.need)
	case v.unknown():
		text = s.red("unknown") + ": too few nodes answer"
	case len(found) > 0:
		text = fmt.Sprintf("%s: no token is on a quorum, %s is on %d of %d nodes",
			s.yellow("not held"), who(found[0].token), found[0].nodes, len(v.sights))
	default:
		text = s.dim("free")
	}
	if fence := v.fence(); fence > 0 {
		text += fmt.Sprintf(", fence %d", fence)
	}
	if n := v.waiting(); n > 0 {
		text += fmt.Sprintf(", %d waiting", n)
	}
	return text
}

// text is what one node says; holder is the token of who holds the resource.
func (n sight) text(s style, holder string) string {
	switch {
	case n.err != nil:
		return s.red(causeOf(n.err))
	case n.token == "":
		return s.dim("free")
	case n.token == holder || holder == "":
		return "held by " + who(n.token) + " " + lasting(n.ttl)
	default:
		return s.yellow("held by " + who(n.token) + " " + lasting(n.ttl))
	}
}

// A viewJSON is a view for programs. It has no token.
type viewJSON struct {
	Resource  string       `json:"resource"`
	Semaphore string       `json:"semaphore,omitempty"` // of which the resource is a slot
	Slot      *int         `json:"slot,omitempty"`
	State     string       `json:"state"` // held, free, partial (less than a quorum) or unknown
	Held      bool         `json:"held"`
	Holder    string       `json:"holder,omitempty"`
	Owner     string       `json:"owner,omitempty"`
	TTLMS     *int64       `json:"ttl_ms,omitempty"` // -1: no expiry
	Fence     int64        `json:"fence,omitempty"`
	On        int          `json:"on"` // how many nodes have the holder's token, or the most frequent one
	Need      int          `json:"need"`
	Waiting   int          `json:"waiting"` // -1: not known
	Nodes     []sightJSON  `json:"nodes,omitempty"`
	Waiters   []waiterJSON `json:"waiters,omitempty"`
}

type sightJSON struct {
	Node    string  `json:"node"`
	TookMS  float64 `json:"took_ms"`
	Error   string  `json:"error,omitempty"`
	Next    string  `json:"next,omitempty"` // what to look at
	Holder  string  `json:"holder,omitempty"`
	Owner   string  `json:"owner,omitempty"`
	TTLMS   *int64  `json:"ttl_ms,omitempty"`
	Fence   int64   `json:"fence,omitempty"`
	Waiting int     `json:"waiting"`
}

type waiterJSON struct {
	Name     string `json:"name"`
	WaitedMS int64  `json:"waited_ms"`
	Nodes    int    `json:"nodes"`
}

func (v *view) json() viewJSON {
	j := viewJSON{Resource: v.resource, State: "free", Need: v.need, Fence: v.fence(), Waiting: v.waiting(), Waiters: v.waiters()}
	if v.semaphore != "" {
		j.Semaphore, j.Slot = v.semaphore, &v.slot
	}
	if found := v.holdings(); len(found) > 0 {
		h := found[0]
		j.State, j.On, j.Held = "partial", h.nodes, h.nodes >= v.need
		j.Holder, j.Owner, j.TTLMS = stored.Holder(h.token), stored.Owner(h.token), ttlJSON(h.ttl)
	}
	switch {
	case j.Held:
		j.State = "held"
	case v.unknown():
		j.State = "unknown"
	}
	for _, n := range v.sights {
		s := sightJSON{Node: n.node, TookMS: millisOf(n.took), Fence: n.fence, Waiting: n.queued}
		switch {
		case n.err != nil:
			s.Error, s.Waiting = messageOf(n.err), -1
			s.Next = nextStep(n.err)
		case n.token != "":
			s.Holder, s.Owner, s.TTLMS = stored.Holder(n.token), stored.Owner(n.token), ttlJSON(n.ttl)
		}
		j.Nodes = append(j.Nodes, s)
	}
	return j
}
