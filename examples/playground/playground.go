package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/redlock"
)

const (
	resource = "the-lock"

	// nodeTimeout is long, as nodes can be made slow; and a browser beside it can make the machine busy.
	nodeTimeout = 2500 * time.Millisecond

	// lookEvery is how often the nodes' keys are looked at.
	lookEvery = 100 * time.Millisecond
)

// A playground is what the page shows. It outlives the stage, which is made anew whenever somebody starts over.
type playground struct {
	ttl   time.Duration
	ctx   context.Context //nolint:containedctx // The program's.
	start time.Time

	acting sync.Mutex // held while something is done that was asked for: one thing at a time

	mu   sync.Mutex // guards the rest, and what is said to be so of clients and nodes
	st   *stage
	rec  recorder
	auto bool
}

func open(ctx context.Context, ttl time.Duration) (*playground, error) {
	p := &playground{ttl: ttl, ctx: ctx, start: time.Now()}
	p.rec.changed = make(chan struct{})
	st, err := newStage(p, false) //nolint:contextcheck // The stage ends with p.ctx, which is ctx.
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st = st
	p.say(info, "", "Five nodes are up, and nobody has the lock. Have a client lock it.")
	return p, nil
}

func (p *playground) close() {
	p.acting.Lock()
	defer p.acting.Unlock()
	p.stage().close()
}

func (p *playground) stage() *stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.st
}

var errUnknown = errors.New("the playground knows no such thing to do")

// do does what a button asks for: "kill 3", "lock A", "auto on".
func (p *playground) do(what string) error {
	verb, whom, _ := strings.Cut(what, " ")
	p.acting.Lock()
	defer p.acting.Unlock()
	switch verb {
	case "reset":
		return p.startOver(p.stage().quarantine)
	case "quarantine":
		return p.startOver(whom == "on")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if verb == "auto" {
		p.st.setAuto(whom == "on")
		return nil
	}
	for _, n := range p.st.nodes {
		if n.name != whom {
			continue
		}
		if d, found := deeds[verb]; found {
			return n.suffer(d)
		} else if verb == "empty" {
			return n.empty()
		}
	}
	for _, c := range p.st.clients {
		if f := calls[verb]; f != nil && c.name == whom {
			f(c)
			return nil
		}
	}
	return errUnknown
}

// startOver replaces the stage: an option of all clients has changed, or somebody wants to begin anew.
func (p *playground) startOver(quarantine bool) error {
	p.stage().close()
	st, err := newStage(p, quarantine)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st, p.auto = st, false
	p.rec.clear()
	if quarantine {
		p.say(info, "", "Everything starts over, with quarantine: a node that has lost its keys grants no lock for %s.",
			seconds(p.ttl+quarantineMargin))
	} else {
		p.say(info, "", "Everything starts over: five nodes are up, and nobody has the lock.")
	}
	return nil
}

// options are those of every client.
func (p *playground) options(c *client) []redlock.Option {
	opts := []redlock.Option{
		redlock.WithOwner(c.name), // The nodes show this name with the key.
		redlock.WithFencing(),
		redlock.WithRetryCount(-1), // Lock waits until it is told to give up,
		redlock.WithRetryIf(c.waitsFor),
		redlock.WithRetryDelay(500 * time.Millisecond),
		redlock.WithNodeTimeout(nodeTimeout),
		redlock.WithConnectTimeout(nodeTimeout),
		redlock.WithHook(c.hear),
	}
	if c.st.quarantine {
		opts = append(opts, redlock.WithQuarantine(p.ttl))
	}
	return opts
}
