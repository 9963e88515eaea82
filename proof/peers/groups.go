package main

import (
	"slices"
	"time"

	"github.com/seed6c881748/redlock/proof/chaos/plan"
)

// A group is a set of faults that strike one at a time on each series of the schedule.
type group struct {
	name, course string
	kinds        []string // Those of the course that are meant.
	draw         func(f flags, g group) (*plan.Plan, error)
}

var groups = []group{
	{"none", "none", nil, draw},
	{"kill", "kill", []string{plan.Kill}, draw},
	{"freeze", "freeze", []string{plan.Freeze}, draw},
	{"freeze most", "freeze", []string{plan.Most}, closer},
	{"resets", "network", []string{plan.Reset, plan.Cut, plan.Refuse}, draw},
	{"silence", "network", []string{plan.Drop, plan.Hole, plan.Slow}, draw},
	{"clients", "clients", []string{plan.Pause, plan.Crash}, draw},
	{"rolling", "rolling", []string{plan.Rolling}, closer},
}

// longer is how many times longer the ttl is than in the plan, and with it what is as long as a ttl: keys that are left
// behind would expire before they are noticed.
const longer = 2

// draw is the schedule of a group: the same for all libraries. Quarantine is redlock's alone, so it is off.
func draw(f flags, g group) (*plan.Plan, error) {
	p, err := plan.Draw(f.seed, g.course, f.time, func(kind string) bool { return slices.Contains(g.kinds, kind) })
	if err != nil {
		return nil, err
	}
	p.MaxTTL, p.TTL, p.Resources = 0, p.TTL*longer, p.Resources[:4]
	for i, fault := range p.Faults {
		if fault.Kind == plan.Pause || fault.Kind == plan.Most {
			p.Faults[i].For *= longer
		}
	}
	return p, nil
}

// rest is how long servers and clients work between two faults that stop nearly everything.
const rest = 4 * time.Second

// closer draws the faults of a group that come seldom, and has one begin soon after the other.
func closer(f flags, g group) (*plan.Plan, error) {
	long := f
	long.time *= 10
	p, err := draw(long, g)
	if err != nil {
		return nil, err
	}
	p.Duration = f.time
	at := rest
	for i, fault := range p.Faults {
		if at+fault.For+rest > f.time {
			p.Faults = p.Faults[:i]
			break
		}
		p.Faults[i].At = at
		at += fault.For + rest
	}
	return p, nil
}
