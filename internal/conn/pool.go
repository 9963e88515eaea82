package conn

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/gomodule/redigo/redis"
)

// A Pool hands out connections to one Redis server. It may be the user's, which may
// block forever, ignore its context, return nothing, or panic; see [Source].
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// A DatabasePool is a Pool whose connections must all be in one database.
type DatabasePool struct {
	Pool

	Database int
}

// MarshalText returns what Format prints.
func (p *DatabasePool) MarshalText() ([]byte, error) { return fmt.Append(nil, p), nil }

// Format prints the pool's type, whatever the verb: the pool itself may have passwords.
func (p *DatabasePool) Format(s fmt.State, _ rune) {
	_, _ = fmt.Fprintf(s, "%T in database %d", p.Pool, p.Database)
}

// CheckPool returns an error if a pool cannot be right, without asking it.
func CheckPool(p Pool) error {
	d, ok := p.(*DatabasePool)
	switch {
	case isNil(p), ok && isNil(d.Pool):
		return errors.New("nil Pool")
	case ok && d.Database < 0:
		return fmt.Errorf("database %d: must not be negative", d.Database)
	}
	return nil
}

// isNil reports whether a Pool is nil, or a nil pointer or function.
func isNil(p Pool) bool {
	v := reflect.ValueOf(p)
	return p == nil || (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil()
}
