package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed6c881748/redlock/redlock"
	"github.com/seed6c881748/redlock/redlock/election"
	"github.com/seed6c881748/redlock/redlock/redlocktest"
	"github.com/seed6c881748/redlock/test/testkit"
)

var (
	ctx = context.Background()
	r   = redlocktest.New(&testkit.ExampleTB{}, 3, redlock.WithNodeTimeout(10*time.Second)).Redlock
)

// stand returns a candidate with a label.
func stand(name, label string) *election.Election {
	e, err := election.New(r, name, 10*time.Second, redlock.WithOwner(label))
	if err != nil {
		log.Fatal(err)
	}
	return e
}

// campaign has a candidate elected.
func campaign(e *election.Election) *election.Term {
	term, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return term
}

// One process leads until its work is done. doc.go has the same.
func Example() {
	lead := func(ctx context.Context, fence int64) { fmt.Println("leading:", ctx.Err() == nil && fence > 0) }

	e, err := election.New(r, "reports", 10*time.Second, redlock.WithOwner("host-1"))
	if err != nil {
		log.Fatal(err)
	}
	term, err := e.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	lead(term.Context(), term.Fence()) // It returns when the context has ended.
	_ = term.Resign(ctx)               // Whoever waits leads next. To stand again, Campaign again.
	// Output: leading: true
}

// Lead whenever it can be, for as long as the process runs: a term after the other.
func ExampleElection_Campaign() {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	e, terms := stand("scheduler", "host-1"), 0
	for {
		term, err := e.Campaign(ctx)
		if err != nil {
			fmt.Println(errors.Is(err, context.Canceled))
			break
		}
		if terms++; terms == 3 { // The process is told to end, and the term with it.
			stop()
		}
		fmt.Println("term", terms, context.Cause(term.Context()))
		_ = term.Resign(ctx)
	}
	// Output:
	// term 1 <nil>
	// term 2 <nil>
	// term 3 context canceled
	// true
}

func ExampleElection_Leader() {
	e := stand("mailer", "host-1")
	leader := campaign(e)
	who, err := stand("mailer", "host-2").Leader(ctx) // It asks the nodes.
	fmt.Println(who.Owner, err, e.IsLeader())
	_ = leader.Resign(ctx)
	fmt.Println(e.IsLeader()) // It does not.
	// Output:
	// host-1 <nil> true
	// false
}

// Whoever wants to know who leads need not stand.
func ExampleElection_Observe() {
	leader := campaign(stand("indexer", "host-1"))
	e, err := election.New(r, "indexer", 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	for leading, err := range e.Observe(ctx) {
		switch {
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println("nobody can tell who leads")
		case err != nil:
			fmt.Println(err) // ctx has ended, or the Redlock is closed: this is the last round.
		case leading.Holder == "":
			fmt.Println("nobody leads")
			return
		default:
			fmt.Println(leading.Owner, "leads")
			_ = leader.Resign(ctx)
		}
	}
	// Output:
	// host-1 leads
	// nobody leads
}

// The work stops with the context of its term, which says why it has ended.
func ExampleTerm_Context() {
	term := campaign(stand("poller", "host-1"))
	lock, _ := redlock.FromContext(term.Context())
	fmt.Println(lock.Owner(), lock.Resources(), term.Err())
	_ = term.Resign(ctx)
	<-term.Context().Done()
	fmt.Println(context.Cause(term.Context()))
	// Output:
	// host-1 [poller] <nil>
	// context canceled
}
