// Package redlockhttp shows what a Redlock is doing: as a page for people, and as JSON for programs.
//
//	mux.Handle("/debug/redlock/", redlockhttp.Handler(r))
//
// The page begins with what is wrong. It has the nodes with their states, round-trip times and errors;
// the calls that wait, for what, behind whom and since when; the last events out of the ordinary; the
// locks that this process holds, and for how long yet; and the counters. It renews itself every second.
// It is one file without anything from elsewhere, and works on a phone, in light and dark. The same is
// had as JSON at ?format=json, or with "Accept: application/json"; filter=TEXT leaves the locks and calls
// of which a resource or an owner has the text in it, and sort=oldest or sort=name orders the locks.
//
// It is read-only, does no I/O to the nodes, and shows no token and no password. But it shows the names
// of resources, owners and nodes, and the nodes' error texts: mount it where net/http/pprof would be
// mounted, not in public.
package redlockhttp
