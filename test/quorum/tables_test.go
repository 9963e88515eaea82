package quorum

import "testing"

var usual = []named{
	{"one client, one node", limits{nodes: 1, clients: 1, max: budget{ticks: 2, giveUps: 1, breaks: 1, lates: 1, faults: 1}}},
	{"one client, two nodes", limits{nodes: 2, clients: 1, max: budget{ticks: 2, giveUps: 1, breaks: 1, lates: 1, faults: 1}}},
	{"one client, three nodes", limits{nodes: 3, clients: 1, max: budget{ticks: 2, giveUps: 1, breaks: 1, lates: 1, faults: 1}}},
	{"two clients, one node", limits{nodes: 1, clients: 2, max: budget{ticks: 6, giveUps: 1}}},
	{"two clients, two nodes", limits{nodes: 2, clients: 2, max: budget{ticks: 3, giveUps: 1}}},
	{"two clients, three nodes", limits{nodes: 3, clients: 2, max: budget{giveUps: 1}}},
}

func TestQuorumUsual(t *testing.T) { searchAll(t, usual) }
