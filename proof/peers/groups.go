package main

import (
	"slices"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
)

// A group is a set of faults that strike one at a time on each series of the schedule.
type group struct {
	name, course string
	kinds        []string // Those of the course that are meant.
	doubled      int      // How often the ttl is doubled, besides.
}

var groups = []group{
	{"none", "none", nil, 0},
	{"kill", "kill", []string{plan.Kill}, 0},
	{"freeze", "freeze", []string{plan.Freeze}, 0},
	{"freeze most", "freeze", []string{plan.Most}, 0},
	{"resets", "network", []string{plan.Reset, plan.Cut, plan.Refuse}, 0},
	{"silence", "network", []string{plan.Drop, plan.Hole, plan.Slow}, 0},
	{"clients", "clients", []string{plan.Pause, plan.Crash}, 0},
	{"rolling", "rolling", []string{plan.Rolling}, 0},
}

// draw is the schedule of a group: the same for all libraries. Quarantine is redlock's alone, so it is off.
func draw(f flags, g group) (*plan.Plan, error) {
	p, err := plan.Draw(f.seed, g.course, f.time, func(kind string) bool { return slices.Contains(g.kinds, kind) })
	if err != nil {
		return nil, err
	}
	const longer = 2 // Keys that are left behind would expire before they are noticed.
	p.MaxTTL, p.TTL, p.Resources = 0, p.TTL*longer<<g.doubled, p.Resources[:4]
	for i, fault := range p.Faults {
		if fault.Kind == plan.Pause || fault.Kind == plan.Most {
			p.Faults[i].For *= longer
		}
	}
	return p, nil
}
