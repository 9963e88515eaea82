package history

// A FaultKind is what the faults of a name are. While one lasts, what it strikes may not vote, unless this says so.
type FaultKind struct {
	Harmless  bool // It takes no vote.
	Abstains  bool // The node then votes for nobody, where there is quarantine.
	Forgets   bool // The node has lost what it had.
	Open      bool // It lasts until its end is written.
	Everybody bool // It is told of one client after another, and strikes all.
}

// Faults has the kinds that are more than that, by their names: rules excuse what they explain. Package plan says what all
// are. A pause of a client is told as its freeze, and a flush as one of an emptied node.
var Faults = map[string]FaultKind{
	"kill":    {Abstains: true},
	Empty:     {Abstains: true, Forgets: true},
	Stale:     {Abstains: true, Forgets: true},
	Freeze:    {Open: true},
	"lag":     {Open: true},
	"rolling": {Abstains: true},
	"raise":   {Everybody: true},
	"clock":   {Harmless: true},
	"rate":    {Harmless: true},
	Stall:     {Harmless: true},
}
