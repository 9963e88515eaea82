package quorum

import "testing"

var usual = []named{
	{"two clients, two nodes", limits{nodes: 2, clients: 2, claims: 2, max: budget{}}},
	{"two clients, two nodes, t3", limits{nodes: 2, clients: 2, claims: 3, together: true, max: budget{}}},
	{"two clients, two nodes, swift", limits{nodes: 2, clients: 2, claims: 3, together: true, swift: true, max: budget{ticks: 2}}},
	{"two clients, three nodes", limits{nodes: 3, clients: 2, claims: 2, swift: true, max: budget{}}},
	{"two clients, two nodes, fences", limits{nodes: 2, clients: 2, claims: 2, fenced: true, swift: true, max: budget{}}},
	{"two clients, 3 nodes, fences", limits{nodes: 3, clients: 2, claims: 2, fenced: true, swift: true, max: budget{}}},
	{"prompt 2x2", limits{nodes: 2, clients: 2, together: true, trip: ms, unit: ms, claims: 6, patience: 100 * ms, ttl: 1000 * ms, wins: 1, swift: true, max: budget{}}},
	{"prompt 2x2 ticks", limits{nodes: 2, clients: 2, together: true, trip: ms, unit: ms / 2, claims: 6, patience: 100 * ms, ttl: 1000 * ms, wins: 1, swift: true, max: budget{ticks: 2}}},
	{"prompt 2x2 slow", limits{nodes: 2, clients: 2, together: true, trip: ms, unit: ms, claims: 6, patience: 100 * ms, ttl: 1000 * ms, wins: 1, lucks: 3, max: budget{ticks: 1}}},
}

func TestQuorumUsual(t *testing.T) { searchAll(t, usual) }
