// Package redlockhttp shows what a Redlock is doing: as a page for people, and as JSON for programs.
//
//	mux.Handle("/debug/redlock/", redlockhttp.Handler(r))
//
// From top to bottom the page has
//
//   - what is wrong, each with the next step and a link to where to read on: no quorum, and one node away from that, with
//     what each node does instead of voting; nodes that are down, never vote in time, or are in quarantine; kept locks
//     that are not being extended; nodes that have lost keys of held locks in the last 24 h; calls that have waited for
//     more than 5 minutes, and since when whose lock is held; and what else went wrong in the last 15 minutes;
//   - the nodes with their states, round-trip times and errors. Only nodes that vote in time count as up;
//   - the calls that wait: for what, behind whom, for how long, and at which place of this process's line;
//   - the latest unusual events. Ordinary locking is not among them;
//   - the locks that this process holds, those first that end soonest, with their remaining validity, since when they are
//     held, fence, owner, and whether KeepAlive or Do extend them;
//   - the permits of the semaphores that [WithSemaphores] names, and the calls that wait for one, each in a row. Without
//     it they are locks on "resize#0" and so on: the name alone does not tell a permit from a lock that is named so;
//   - the counters, and what the words mean.
//
// It refreshes itself every second. It is one file that loads nothing from elsewhere, and works on a phone, in light and
// dark. The same is available as JSON at ?format=json, or with "Accept: application/json"; there, "wrong" has level (bad,
// warning), text, next and see. filter=TEXT selects the locks and calls with the text in a resource, an owner or a holder,
// and sort=oldest or sort=name orders the locks. At most 500 locks and as many calls are shown, of each at most 20
// resources, with at most 256 bytes of a name; the others are counted. Filter and order come before these limits.
//
// [Ready] is another handler, for readiness probes.
//
// It answers GET and HEAD, is read-only, does no I/O to the nodes, and shows no token and no password. But it shows the names
// of resources, owners and nodes, and the nodes' error texts: mount it where net/http/pprof would be
// mounted, not in public.
package redlockhttp
