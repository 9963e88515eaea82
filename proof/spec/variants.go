package main

// A variant is lease.pml with one rule broken.
type variant struct {
	Name    string
	Wrong   string // In plain English.
	Rule    string // The name of the rule, with its arguments, and what it is instead.
	Is      string
	Clients int // that it takes, if more than two
}

// variants are the mistakes that are easily made. Of each, make spec must find what it leads to.
var variants = []variant{
	{"no-drift", "Until is start + ttl: nothing comes off for clocks that run at different rates.", "DRIFT", "0", 0},
	{"drift-of-one-clock", "The error of one clock comes off the ttl, not that of two.", "DRIFT", "RATE", 0},
	{"late-start", "The start is read when the answers are there, not before the first request.", "START_IS_LATE", "true", 0},
	{"minority", "Half of the nodes, rounded down, are enough.", "QUORUM", "(N / 2)", 0},
	{"extension-from-its-end", "An extension counts from its answers, not from before its first request.", "FROM_ITS_END", "true", 0},
	{"late-extension", "An extension counts though it is decided after the old Until.", "MAY_BE_LATE", "true", 0},
	{"extension-shortens", "An extension by a shorter ttl makes the life of a key shorter.", "PROLONGED(left, more)", "more", 0},
	{"extension-of-anothers-key", "An extension takes a key, whoever has it.", "MAY_EXTEND", "(key[n] != NOBODY)", 0},
	{"extension-in-quarantine", "An extension also creates a key, and does so in quarantine.", "MAY_EXTEND", "FREE_OR_OWN", 0},
	{"repair-in-quarantine", "A repair creates a key in quarantine.", "MAY_REPAIR", "FREE_OR_OWN", 0},
	{"repair-of-anothers-key", "A repair takes a key, whoever has it.", "MAY_REPAIR", "(quarantine[n] == 0)", 0},
	{"lock-in-quarantine", "A node grants locks in quarantine.", "MAY_LOCK", "FREE_OR_OWN", 0},
	{"short-quarantine", "The quarantine is a tick too short.", "QUARANTINE", "(BELIEF - 1)", 0},
	{"release-of-anothers-key", "A release deletes a key, whoever has it.", "MAY_RELEASE", "(key[n] != NOBODY)", 3},
}
