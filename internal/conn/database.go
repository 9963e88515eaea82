package conn

import (
	"context"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// A pool that the application uses, too, may hand out a connection on which it has selected another database. Locks
// taken there exclude nobody. So the handshake finds out whether the connection is where it should be; one that is
// not is ended, and the pool's next one tried.
//
// It asks with MOVE: of a key that never exists, to the database where the connection should be. "Source and
// destination are the same" is then the answer, 0 if it is elsewhere, and nothing is changed in either case. MOVE is
// as old as databases; CLIENT INFO is not known before Redis 6.2, and SELECT would change what is the pool's.
//
// A connection of a Dialer's is nobody else's, and where its address says.

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
// must be; false where it cannot be anywhere else. key is one that never exists.
func (s *Source) DatabaseQuestion(w *Wire, key string) (command []any, asks bool) {
	want, asks := s.expectedDatabase()
	if !asks || w.own {
		return nil, false
	}
	return moveCommand(key, want), true
}

// IsElsewhere reads the answer to a DatabaseQuestion. A server that does not tell (an ACL
// without the right, a proxy that does not know the command) is not elsewhere.
func IsElsewhere(a Answer) bool {
	moved, ok := a.Reply.(int64)
	return a.Err == nil && ok && moved == 0
}

// Misplaced is for a connection that is elsewhere. It returns an error, a *DatabaseError
// unless the connection breaks, if that is the wrong database: not the one where
// new connections of the pool are, which then is where all must be from now on.
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

// expectedDatabase is where the pool's connections must be; false where they cannot be anywhere else.
func (s *Source) expectedDatabase() (int, bool) {
	_, own := s.pool.(*Dialer)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.database, !own
}

func moveCommand(key string, database int) []any { return []any{"MOVE", key, database} }

// databaseOf returns in which database a connection is, -1 if that is not found out.
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

// freshDatabase returns in which database a new connection of the pool is. It is made past
// the pool, which would hand out one that was used before.
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
