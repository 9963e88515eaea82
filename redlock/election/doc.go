// Package election has several processes elect one of them as leader, over the nodes of a [redlock.Redlock].
//
// The leader holds a lock, and candidates wait for it in the nodes' line, so the promises of locks hold here. No two
// terms overlap, by the leaders' own clocks. A minority of nodes that is down, hung or wrong disturbs nobody; without a
// quorum, a term ends at a known instant. Each term has a fence, larger than that of every earlier one: a process that
// is suspended while it leads may write when it wakes up, and a resource that checks fences refuses that.
//
// After [Term.Resign] the next candidate leads within milliseconds. A leader that has died, stands still or is cut off
// is followed when the ttl is over. Until then observers are told that it leads: nobody can know better.
//
//	e, err := election.New(r, "reports", 10*time.Second, redlock.WithOwner("host-1"))
//	if err != nil {
//		log.Fatal(err)
//	}
//	term, err := e.Campaign(ctx)
//	if err != nil {
//		log.Fatal(err)
//	}
//	lead(term.Context(), term.Fence()) // It returns when the context has ended.
//	_ = term.Resign(ctx)               // Whoever waits leads next. To stand again, Campaign again.
package election
