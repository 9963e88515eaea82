package history

// A FaultKind is what the faults of a name are. While one lasts, what it strikes may not vote, unless this says so.
type FaultKind struct {
	Says string // What happens.

	Harmless  bool // It takes no vote.
	Abstains  bool // The node then votes for nobody, where there is quarantine.
	Forgets   bool // The node has lost what it had.
	Open      bool // It lasts until its end is written.
	Everybody bool // It is told of one client after another, and strikes all.
}

// Faults has all kinds, by their names. The schedule draws them, rules excuse what they explain, and the page says what
// they are. A pause of a client is told as its freeze, and a flush as one of an emptied node.
var Faults = map[string]FaultKind{
	"kill":    {Says: "The server is killed and started again with its data.", Abstains: true},
	Empty:     {Says: "The server is killed, or flushed, and has lost all that it had.", Abstains: true, Forgets: true},
	Stale:     {Says: "The server is killed, and started again with what it had a while ago.", Abstains: true, Forgets: true},
	"flush":   {Says: "FLUSHALL on all servers but the last."},
	Freeze:    {Says: "SIGSTOP of the process.", Open: true},
	"most":    {Says: "SIGSTOP of a majority of the servers."},
	"stutter": {Says: "The server stands still for longer than the node timeout, again and again."},
	"full":    {Says: "The server is out of memory: it makes no key, and extends and deletes what it has."},
	"reset":   {Says: "All connections to the node break; what is on its way arrives late."},
	"cut":     {Says: "All connections to the node break; what is on its way is gone."},
	"drop":    {Says: "Requests are carried out, and nobody hears of it."},
	"slow":    {Says: "Bytes take up to 60 ms, then the connections break, and they arrive up to a second late."},
	"lag":     {Says: "Bytes to and from the server take 20 to 60 ms, from the start on.", Open: true},
	"refuse":  {Says: "The node takes no new connections, and the old ones are broken."},
	"hole":    {Says: "All bytes vanish in both directions."},
	"snap":    {Says: "Connections break while an extension or a repair is on its way."},
	"away":    {Says: "One client is cut off from a node that others reach."},
	"oneway":  {Says: "One direction between a client and a node fails."},
	"split":   {Says: "Each client is cut off from a minority of its own."},
	"alone":   {Says: "A client is cut off from all nodes, or all but one."},
	"pause":   {Says: "SIGSTOP of a client."},
	"crash":   {Says: "kill -9 of a client; another one takes its place."},
	"crowd":   {Says: "Hundreds of callers in another process ask the nodes for locks."},
	"rolling": {Says: "All servers are restarted one by one with their data, and admitted by an operator.", Abstains: true},
	"raise":   {Says: "All clients are restarted one by one with a larger maxTTL.", Everybody: true},
	"grow":    {Says: "All clients are restarted one by one with the next set of nodes."},
	"clock":   {Says: "The clock of the node's server is set back, and stays so.", Harmless: true},
	"rate":    {Says: "The clock of the node's server runs fast, then slow, then fast.", Harmless: true},
	Stall:     {Says: "The process found that it had not run, although nobody had stopped it.", Harmless: true},
}
