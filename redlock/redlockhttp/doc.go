// Package redlockhttp shows what a Redlock is doing: as a page for people, and as JSON for programs.
//
//	mux.Handle("/debug/redlock/", redlockhttp.Handler(r))
//
// [WithSemaphores] names semaphores whose permits are shown together.
//
// The page begins with what is wrong, each with the next step and a link to where to read on. It has the nodes with their states, round-trip times and errors;
// the calls that wait, for what, behind whom and since when; the latest unusual events; the locks that
// this process holds, and how long they still last; and the counters. It refreshes itself every second.
// It is one file that loads nothing from elsewhere, and works on a phone, in light and dark. The same
// is available as JSON at ?format=json, or with "Accept: application/json". filter=TEXT selects the
// locks and calls with the text in a resource or an owner, and sort=oldest or sort=name orders the
// locks.
//
// It is read-only, does no I/O to the nodes, and shows no token and no password. But it shows the names
// of resources, owners and nodes, and the nodes' error texts: mount it where net/http/pprof would be
// mounted, not in public.
package redlockhttp
