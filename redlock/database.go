package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A pool that the application uses, too, may hand out a connection on which it has
// selected another database. Locks taken there exclude nobody. So the handshake finds out
// whether the connection is where it should be; one that is not is ended, and the pool's
// next one tried.
//
// It asks with MOVE: of a key that never exists, to the database where the connection
// should be. "Source and destination are the same" is then the answer, 0 if it is
// elsewhere, and nothing is changed in either case. MOVE is as old as databases;
// CLIENT INFO is not known before Redis 6.2, and SELECT would change what is the pool's.
//
// A connection of NewNode's is nobody else's, and where its address says.

// mostDatabases is how many databases are tried to find out where a connection is.
const mostDatabases = 16

// InDatabase returns a Pool for a [Node] that hands out p's connections, all of which must
// be in the given database: one that is not is refused, and is the node's vote. Without
// it, connections of a Pool must be in database 0, or, of a *redis.Pool, in the one where
// a new connection is. It selects no database; the pool's Dial does (redis.DialDatabase).
func InDatabase(p Pool, database int) Pool { return &databasePool{p, database} }

type databasePool struct {
	Pool

	database int
}

// check reports what is wrong with the arguments of InDatabase.
func (p *databasePool) check() error {
	switch {
	case isNil(p.Pool):
		return errors.New("nil Pool")
	case p.database < 0:
		return fmt.Errorf("database %d: must not be negative", p.database)
	}
	return nil
}

// A databaseError is the vote of a node with a connection in the wrong database.
type databaseError struct{ in, want int }

func (e *databaseError) Error() string {
	in := "another database than"
	if e.in >= 0 {
		in = fmt.Sprintf("database %d, not", e.in)
	}
	return fmt.Sprintf("the pool's connection is in %s %d, where locks would exclude nobody: "+
		"the application has selected it, or the pool's database is to be named with InDatabase", in, e.want)
}

// expectedDatabase is where the node's connections must be; false where they cannot be
// anywhere else.
func (n *node) expectedDatabase() (int, bool) {
	switch p := n.pool.(type) {
	case *dialer:
		return 0, false
	case *databasePool:
		_, own := p.Pool.(*dialer)
		return p.database, !own
	default:
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.database, true
	}
}

// moveCommand asks whether the connection is in the database.
func (n *node) moveCommand(database int) []any {
	return []any{"MOVE", n.stone.(string) + ":none", database}
}

// isIn and isElsewhere read the answer. A server that does not tell (an ACL without the
// right, a proxy that does not know the command) is neither.
func isIn(a answer) bool {
	return a.err != nil && strings.Contains(a.err.Error(), "source and destination objects are the same")
}

func isElsewhere(a answer) bool {
	moved, ok := a.reply.(int64)
	return a.err == nil && ok && moved == 0
}

// misplaced returns an error if a connection that is not in the expected database is in
// the wrong one: it is not where new ones of the pool are, which then is the node's
// database from now on.
func (n *node) misplaced(ctx context.Context, conn *wire, want int) error {
	in, err := n.databaseOf(ctx, conn)
	if err != nil {
		return err
	}
	if p, ok := n.pool.(*redis.Pool); ok && in >= 0 {
		if fresh, err := n.freshDatabase(ctx, p); err != nil {
			return err
		} else if fresh == in {
			n.mu.Lock()
			n.database = in
			n.mu.Unlock()
			return nil
		}
	}
	return &databaseError{in, want}
}

// databaseOf returns in which database a connection is, -1 if that is not found out.
func (n *node) databaseOf(ctx context.Context, conn *wire) (int, error) {
	var commands [][]any
	for i := range mostDatabases {
		commands = append(commands, n.moveCommand(i))
	}
	answers, err := exchange(ctx, conn, commands)
	if err != nil {
		return 0, err
	}
	for i, a := range answers {
		if isIn(a) {
			return i, nil
		}
	}
	return -1, nil
}

// freshDatabase returns in which database a new connection of the pool is. It is made past
// the pool, which would hand out one that was used before.
func (n *node) freshDatabase(ctx context.Context, p *redis.Pool) (int, error) {
	fresh := &redis.Pool{Dial: p.Dial, DialContext: p.DialContext}
	conn, err := n.borrowFrom(ctx, fresh)
	if err != nil {
		return 0, err
	}
	w := newWire(conn)
	stop := context.AfterFunc(ctx, w.abort)
	defer func() {
		stop()
		w.abort()
		w.giveBack()
	}()
	return n.databaseOf(ctx, w)
}

// place finds out whether the connection is in the wrong database. What the last one for
// locks has shown counts, too: the pool's next one may be another.
func (f *facts) place(q *questions, n *node) {
	if want, asks := n.expectedDatabase(); asks && !q.wire.own {
		if answers := q.ask(n.moveCommand(want)); answers != nil && isElsewhere(answers[0]) {
			f.astray = n.misplaced(q.ctx, q.wire, want)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if wrong := (*databaseError)(nil); errors.As(n.down, &wrong) {
		f.astray = wrong
	}
}

func (fit *fitness) database(f *facts) Finding {
	if f.astray == nil {
		return fine("its connections are in the database where locks are")
	}
	return amiss(VerdictUnfit, words(f.astray.Error()),
		"Select no database on the pool's connections, or name the pool's database with InDatabase")
}
