package node

import (
	"context"
	"fmt"

	"github.com/seed6c881748/redlock/internal/conn"
)

// handshake loads the scripts, and puts up the tombstone if the outcome of requests is
// unknown, of how many it returns. Each attempt is a new generation, so that what an
// abandoned one still delivers is recognised.
func (n *Node) handshake(ctx context.Context, w *conn.Wire) (unknown int, err error) {
	if err = w.Err(); err != nil {
		return 0, err // A Pool around redigo's Get has no other way to say so.
	}
	if err = w.Abortable(ctx); err != nil {
		return 0, err
	}
	n.mu.Lock()
	n.gen++
	n.forget()
	gen, life, unknown := n.gen, n.life, n.unknown
	n.mu.Unlock()

	var steps []conn.Step
	if unknown > 0 {
		steps = append(steps, n.tombstoneStep(gen, life))
	}
	steps = append(append(steps, n.writeProbe()), n.scriptSteps()...)
	elsewhere := false
	if question, asks := n.Source.DatabaseQuestion(w, n.UnusedKey()); asks {
		steps = append(steps, conn.Step{Command: question, Check: func(a conn.Answer) error {
			elsewhere = conn.IsElsewhere(a)
			return nil
		}})
	}
	var looks []conn.Answer
	for _, c := range n.dialectCommands() {
		steps = append(steps, conn.Step{Command: c, Check: func(a conn.Answer) error {
			looks = append(looks, a)
			return nil
		}})
	}
	if err = w.Run(ctx, steps); err != nil {
		return 0, err
	}
	if elsewhere {
		if err = n.Source.Misplaced(ctx, w, n.UnusedKey()); err != nil {
			return 0, err
		}
	}
	var spoken ConnDialect
	if n.dialect != nil {
		if spoken, err = n.dialect.Learn(ctx, w, looks); err != nil {
			return 0, err
		}
	}
	n.mu.Lock()
	n.spoken = spoken
	n.unknown, n.life = 0, 0
	n.mu.Unlock()
	return unknown, nil
}

// writeProbe is a write that changes nothing. A replica refuses it, and would otherwise
// count as up until somebody asks it for a lock, again and again.
func (n *Node) writeProbe() conn.Step {
	return conn.Step{
		Command: []any{"DEL", n.UnusedKey()},
		Check:   func(a conn.Answer) error { return conn.WrongServer(a.Err) },
	}
}

// UnusedKey is a key that never exists.
func (n *Node) UnusedKey() string { return n.tombstoneKey.(string) + ":none" }

// dialectCommands are what the dialect asks in the handshake, together with the rest.
func (n *Node) dialectCommands() [][]any {
	if n.dialect == nil {
		return nil
	}
	return n.dialect.Questions()
}

// scriptSteps have the server know the scripts.
func (n *Node) scriptSteps() []conn.Step {
	steps := make([]conn.Step, len(n.scripts))
	for i, s := range n.scripts {
		steps[i] = conn.Step{Command: []any{"SCRIPT", "LOAD", s.Source}, Check: func(a conn.Answer) error {
			if a.Err != nil {
				return fmt.Errorf("loading the %s script: %w", s.Name, a.Err)
			}
			return nil
		}}
	}
	return steps
}
