package fitness

import (
	"context"
	"time"

	"github.com/seed6c881748/redlock/internal/conn"
)

// A Setup is what the findings depend on besides the nodes.
type Setup struct {
	NodeTimeout time.Duration
	Nodes       int    // how many there are, and of them
	Quorum      int    // so many are a quorum
	Prefix      string // what the keys of locks begin with
	Space       string // what the library's own keys and channels begin with, the prefix included
	Key         string // a key in it that the check may set and delete
	Channel     string // a channel in it that nobody listens on
	Fencing     bool
	Polling     bool
	Quarantine  *Quarantine // nil: none
	MarkerKey   string      // where a node stores its quarantine, also if this client has none
	ParseMarker func(text string) Marker
}

// A Quarantine says how long nodes abstain after a restart.
type Quarantine struct {
	MaxTTL time.Duration
	Margin time.Duration // what the quarantine is longer than the longest maxTTL
}

// A Marker is what a node knows of its quarantine. The zero value stands for none, and for
// one that is not to be understood.
type Marker struct {
	Run    string // the run_id of the server that it was written in
	Votes  bool
	Nodes  int           // how many the clients work with
	MaxTTL time.Duration // the largest that the node has heard of
	Since  time.Time     // by the node's clock
}

// A Node is one that is to be checked.
type Node struct {
	Name        string
	Source      *conn.Source // of a connection besides the one that locks use
	UnusedKey   string       // one that never exists
	ResourceKey string       // one that a resource could have, and none has

	// Down says why the connection that locks use is not up; nil if it is. Alive asks on
	// it, and reports whether there was an answer.
	Down  func() error
	Alive func(ctx context.Context) bool
}
