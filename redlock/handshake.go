package redlock

import (
	"context"
	"fmt"
)

// A step is a command of the handshake, and what is made of its answer. All steps are
// sent together: with a far node, round trips are what connecting takes.
type step struct {
	command []any
	check   func(a answer) error
}

// handshake loads the scripts, and puts up the tombstone if the outcome of requests is
// unknown, of how many it returns. Each attempt is a new generation, so that what an
// abandoned one still delivers is recognised.
func (n *node) handshake(ctx context.Context, conn *wire) (unknown int, err error) {
	if err = conn.Err(); err != nil {
		return 0, err // A Pool around redigo's Get has no other way to say so.
	}
	if err = abortable(ctx, conn); err != nil {
		return 0, err
	}
	n.mu.Lock()
	n.gen++
	n.forget()
	gen, life, unknown := n.gen, n.life, n.unknown
	n.mu.Unlock()

	var steps []step
	if unknown > 0 {
		steps = append(steps, n.tombstoneStep(gen, life))
	}
	steps = append(append(steps, n.writeProbe()), n.scriptSteps()...)
	elsewhere := false
	database, asks := n.expectedDatabase()
	if asks && !conn.own {
		steps = append(steps, step{n.moveCommand(database), func(a answer) error {
			elsewhere = isElsewhere(a)
			return nil
		}})
	}
	var commands [][]any
	for _, s := range steps {
		commands = append(commands, s.command)
	}
	answers, err := exchange(ctx, conn, append(commands, n.dialectCommands()...))
	if err != nil {
		return 0, err
	}
	for i, s := range steps {
		if err = s.check(answers[i]); err != nil {
			return 0, err
		}
	}
	if elsewhere {
		if err = n.misplaced(ctx, conn, database); err != nil {
			return 0, err
		}
	}
	if n.dialect != nil {
		if n.spoken, err = n.dialect.learn(ctx, conn, answers[len(steps):]); err != nil {
			return 0, err
		}
	}
	n.mu.Lock()
	n.unknown, n.life = 0, 0
	n.mu.Unlock()
	return unknown, nil
}

// writeProbe is a write that changes nothing. A replica refuses it, and would otherwise
// count as up until somebody asks it for a lock, again and again.
func (n *node) writeProbe() step {
	return step{[]any{"DEL", n.stone.(string) + ":none"}, func(a answer) error { return misled(a.err) }}
}

// dialectCommands are what the dialect asks in the handshake, together with the rest.
func (n *node) dialectCommands() [][]any {
	if n.dialect == nil {
		return nil
	}
	return n.dialect.questions()
}

// scriptSteps have the server know the scripts.
func (n *node) scriptSteps() []step {
	steps := make([]step, len(n.scripts))
	for i, s := range n.scripts {
		steps[i] = step{[]any{"SCRIPT", "LOAD", s.sourceArg}, func(a answer) error {
			if a.err != nil {
				return fmt.Errorf("loading the %s script: %w", s.name, a.err)
			}
			return nil
		}}
	}
	return steps
}

// exchange sends commands in a handshake, together, and returns the answers.
func exchange(ctx context.Context, conn *wire, commands [][]any) ([]answer, error) {
	for _, c := range commands {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return nil, err
		}
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	answers := make([]answer, len(commands))
	for i := range answers {
		reply, err := conn.receive(left(ctx))
		if err != nil && !isReply(err) {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		answers[i] = answer{reply, err}
	}
	return answers, nil
}
