// Package protocol is what the conductor and a client process say to each other, whatever language the client is in.
//
// A client reads its Config from stdin, one line of JSON, and then Commands, one a line, until stdin ends. It connects
// to Config.Observer by TCP and sends history events, one a line: it stamps at, and says
// who it is. The observer logs them as they are, except for read and write, which it carries out, logs and sends back
// with value, ok and end. Answers come in the order of the requests.
package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Config says what a client is to do. Durations are nanoseconds.
type Config struct {
	Client   string `json:"client"`   // The name in its events: "c1", "c1.2".
	Observer string `json:"observer"` // host:port
	Start    int64  `json:"start"`    // The run's start by CLOCK_MONOTONIC.
	Seed     uint64 `json:"seed"`     // Of all that the client draws by lot.

	Nodes       []string `json:"nodes"`         // host:port
	Set         []int    `json:"set,omitempty"` // Their numbers in the run; left out if these are all nodes.
	Resources   []string `json:"resources"`
	Fenced      []string `json:"fenced,omitempty"` // Those of Resources whose locks have fences.
	Workers     int      `json:"workers"`
	TTL         int64    `json:"ttl"`
	NodeTimeout int64    `json:"nodeTimeout"`
	MaxTTL      int64    `json:"maxTTL,omitempty"` // 0: no quarantine.

	Conn string `json:"conn,omitempty"` // One of the constants below; none: as usual.

	// Bare are those that are locked without quarantine, which is another way through the library.
	Bare []string `json:"bare,omitempty"`
	// Expiring are resources whose locks are mostly left to expire, Led such as one client holds until it loses them.
	Expiring []string `json:"expiring,omitempty"`
	Led      []string `json:"led,omitempty"`
	// Hot are resources that several callers of a process want at once, for a moment each: those from the third on one by one
	// and together.
	Hot []string `json:"hot,omitempty"`
	// Long has it take locks that outlive the run, on a resource of its own, and release them all.
	Long bool `json:"long,omitempty"`
	// Callers is how many ask the nodes for locks of their own besides, without a pause and a word.
	Callers int `json:"callers,omitempty"`
	// Quiet has it tell nothing but samples, and use names that never come again.
	Quiet bool `json:"quiet,omitempty"`
}

// A Command is one of the conductor's orders.
type Command struct {
	Do string `json:"do"` // The constants below.

	// Of Release: the lock that Owner took in its call Lock.
	Owner     string   `json:"owner,omitempty"`
	Lock      int      `json:"lock,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Token     string   `json:"token,omitempty"`

	Node int   `json:"node,omitempty"` // Of Admit, from 0 on.
	Tick int64 `json:"tick,omitempty"` // Of Sample: its number.
}

// What a client is told to do.
const (
	Stop    = "stop"    // Finish what is under way, release all locks, say that it is Done.
	Release = "release" // Release a lock that another process took.
	Admit   = "admit"   // End the quarantine of a node.
	Sample  = "sample"  // Tell how much the process uses.
)

// How a client can be connected so that it hears of no release: over a pool of one connection for each node; as a user who may
// not SUBSCRIBE; or, without knowing it, by a proxy that keeps its connections whatever becomes of the server.
const (
	Single = "single"
	Mute   = "mute"
	Hidden = "hidden"
)

// Duties are what a client says to the conductor on stdout, one word a line.
const (
	Ready = "ready" // Its first lines: connected to the observer.
	Done  = "done"  // After Stop: nothing is held. It stays until stdin ends, so that releases can be repeated.
)

// SignalSlack is by how much what a client hears may be late on a calm machine, and Slack what may be added to any call.
// Clients tell when they did not run, which is excused.
const (
	SignalSlack = 50 * time.Millisecond
	Slack       = 500 * time.Millisecond
)

// Orders reads the Config of a client. The scanner goes on with its Commands.
func Orders(stdin io.Reader) (cfg Config, commands *bufio.Scanner, err error) {
	commands = bufio.NewScanner(stdin)
	commands.Buffer(nil, 1<<20)
	if !commands.Scan() {
		return cfg, nil, errors.New("protocol: no configuration")
	}
	if err = json.Unmarshal(commands.Bytes(), &cfg); err != nil {
		return cfg, nil, fmt.Errorf("protocol: configuration: %w", err)
	}
	return cfg, commands, nil
}

// Line is v as one line of JSON.
func Line(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("protocol: %v", err)) // All types that are sent can be.
	}
	return append(b, '\n')
}

// Admitted is what a client says when it has done with Admit, whether it succeeded or not.
func Admitted(node int) string { return fmt.Sprint("admitted ", node) }
