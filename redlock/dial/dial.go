package dial

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/redlock"
)

// A Server is what another client library knows about a server. Dial and Credentials must not be nil.
type Server struct {
	Address  string // in the node's name; never with credentials
	Database int
	Client   string // the name of the connections; none if it is empty

	// Dial makes a network connection, with TLS if the server wants that.
	Dial func(ctx context.Context) (net.Conn, error)

	// Credentials returns the credentials for a new connection to an address. Without a user, the password is the
	// default user's; without either, there is no login.
	Credentials func(ctx context.Context, server net.Addr) (user, password string, err error)
}

// Node returns a node that dials, and looks up its credentials, for each connection.
func (s Server) Node() redlock.Node {
	return redlock.Node{Name: s.name(), Pool: redlock.InDatabase(redlock.PoolFunc(s.connect), s.Database)}
}

// Refused returns a node that redlock.New refuses with an error that says what is not supported, and why.
func Refused(name, why string, args ...any) redlock.Node {
	return redlock.Node{Name: name, Pool: &conn.Dialer{Err: fmt.Errorf("%s is not supported: %s", name, fmt.Sprintf(why, args...))}}
}

// name returns the name that NewNode would give.
func (s Server) name() string {
	switch {
	case s.Database == 0:
		return s.Address
	case len(s.Address) > 0 && s.Address[0] == '/':
		return fmt.Sprintf("%s?db=%d", s.Address, s.Database)
	default:
		return fmt.Sprintf("%s/%d", s.Address, s.Database)
	}
}

func (s Server) connect(ctx context.Context) (redis.Conn, error) {
	d := &conn.Dialer{}
	d.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := s.Dial(ctx)
		if err != nil {
			return nil, err
		}
		// Credentials are looked up last: they may not be valid for long.
		if d.Login, err = s.login(ctx, c.RemoteAddr()); err != nil {
			_ = c.Close()
			return nil, err
		}
		if secure, ok := c.(*tls.Conn); ok {
			return tlsConn{secure}, nil
		}
		return c, nil
	}
	return d.GetContext(ctx)
}

// login returns the commands for a new connection.
func (s Server) login(ctx context.Context, server net.Addr) (commands [][]any, err error) {
	user, password, err := s.Credentials(ctx, server)
	switch {
	case err != nil:
		return nil, fmt.Errorf("looking up the credentials: %w", err)
	case user != "":
		commands = append(commands, []any{"AUTH", user, password})
	case password != "":
		commands = append(commands, []any{"AUTH", password})
	}
	if s.Client != "" {
		commands = append(commands, []any{"CLIENT", "SETNAME", s.Client})
	}
	if s.Database != 0 {
		commands = append(commands, []any{"SELECT", s.Database})
	}
	return commands, nil
}

// A tlsConn is a connection whose undelivered bytes redlock can have the kernel drop.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) SetLinger(seconds int) error {
	if tcp, ok := c.NetConn().(interface{ SetLinger(seconds int) error }); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}
