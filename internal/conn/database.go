package conn

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A pool that the application uses as well may hand out a connection on which it has selected another database. Locks
// taken there exclude nobody. So the handshake finds out whether the connection is in the right database. If not, it
// ends the connection and tries the pool's next one.
//
// It asks by a MOVE of a key that never exists, to the database where the connection should be. If it is there, the
// answer is "source and destination are the same", and else 0; neither changes anything. MOVE is as old as databases;
// CLIENT INFO is unknown before Redis 6.2, and SELECT would change the pool's connection.
//
// Nobody else uses a Dialer's connection, so it is where its address says.

// mostDatabases is how many databases are tried to find out where a connection is.
const mostDatabases = 16

// A DatabaseError says that a connection is in the wrong database.
type DatabaseError struct{ in, want int }

func (e *DatabaseError) Error() string {
	in := "another database than"
	if e.in >= 0 {
		in = fmt.Sprintf("database %d, not", e.in)
	}
	return fmt.Sprintf("the pool's connection is in %s %d, where locks would exclude nobody: "+
		"the application has selected it, or the pool's database is to be named with InDatabase", in, e.want)
}

// DatabaseQuestion returns the command that asks whether a connection is in the database where the pool's connections
// must be. asks is false where it cannot be anywhere else. key is one that never exists.
func (s *Source) DatabaseQuestion(w *Wire, key string) (command []any, asks bool) {
	want, asks := s.expectedDatabase()
	if !asks || w.own {
		return nil, false
	}
	return moveCommand(key, want), true
}

// IsElsewhere reports whether the answer to a DatabaseQuestion says that the connection is elsewhere. A server that
// does not tell (an ACL without the right, a proxy that does not know the command) is not elsewhere.
func IsElsewhere(a Answer) bool {
	moved, ok := a.Reply.(int64)
	return a.Err == nil && ok && moved == 0
}

// Misplaced decides about a connection that is elsewhere. If new connections of the pool are in the same database, all
// must be there from now on, and it returns nil. Otherwise it returns a *DatabaseError, or another error if the
// connection breaks.
func (s *Source) Misplaced(ctx context.Context, w *Wire, key string) error {
	want, _ := s.expectedDatabase()
	in, err := databaseOf(ctx, w, key)
	if err != nil {
		return err
	}
	if p, ok := s.pool.(*redis.Pool); ok && !s.fixed && in >= 0 {
		if fresh, err := s.freshDatabase(ctx, p, key); err != nil {
			return err
		} else if fresh == in {
			s.mu.Lock()
			s.database = in
			s.mu.Unlock()
			return nil
		}
	}
	return &DatabaseError{in, want}
}

// expectedDatabase returns where the pool's connections must be, and false if they cannot be anywhere else.
func (s *Source) expectedDatabase() (int, bool) {
	_, own := s.pool.(*Dialer)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.database, !own
}

func moveCommand(key string, database int) []any { return []any{"MOVE", key, database} }

// databaseOf returns in which database a connection is, -1 if it cannot tell.
func databaseOf(ctx context.Context, w *Wire, key string) (int, error) {
	var commands [][]any
	for i := range mostDatabases {
		commands = append(commands, moveCommand(key, i))
	}
	answers, err := w.Exchange(ctx, commands)
	if err != nil {
		return 0, err
	}
	for i, a := range answers {
		if a.Err != nil && strings.Contains(a.Err.Error(), "source and destination objects are the same") {
			return i, nil
		}
	}
	return -1, nil
}

// freshDatabase returns in which database a new connection of the pool is. It makes one past the pool, which would hand
// out a used one.
func (s *Source) freshDatabase(ctx context.Context, p *redis.Pool, key string) (int, error) {
	w, err := s.borrowFrom(ctx, dialsOf(p))
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, w.Abort)
	defer func() {
		stop()
		w.Abort()
		w.GiveBack()
	}()
	return databaseOf(ctx, w, key)
}
