package conn

import (
	"context"
	"fmt"
	"time"
)

// The commands of a handshake go out together: to a far node, round trips are what takes the time.

// A Step is a command of a handshake, and the check of its answer.
type Step struct {
	Command []any // the name, a string, and the arguments
	Check   func(a Answer) error
}

// Run sends the commands of all steps together, and hands each step its answer. It returns
// the first error of a step, or the connection's.
func (w *Wire) Run(ctx context.Context, steps []Step) error {
	commands := make([][]any, len(steps))
	for i, s := range steps {
		commands[i] = s.Command
	}
	answers, err := w.Exchange(ctx, commands)
	if err != nil {
		return err
	}
	for i, s := range steps {
		if err := s.Check(answers[i]); err != nil {
			return w.explainUnknown(ctx, err)
		}
	}
	w.said = "" // A refused question is not why the server hangs up later.
	return nil
}

// Exchange sends commands together, and returns as many answers. The deadline of ctx bounds it. The error is one of the
// connection; a refusal by the server is an answer.
func (w *Wire) Exchange(ctx context.Context, commands [][]any) ([]Answer, error) {
	if err := w.SendAll(commands); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(commands))
	for i := range answers {
		reply, err := w.Receive(TimeLeft(ctx))
		if err != nil && !IsReply(err) {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		answers[i] = Answer{reply, WithoutArguments(err)}
	}
	return answers, nil
}

// SendAll writes commands together. No answer may be outstanding that another goroutine reads.
func (w *Wire) SendAll(commands [][]any) error {
	for _, c := range commands {
		if err := w.Send(c[0].(string), c[1:]...); err != nil {
			return w.lastWords(err)
		}
	}
	return w.lastWords(w.Flush())
}

// TimeLeft returns the time until ctx's deadline, which it must have: never 0, which would be no limit.
func TimeLeft(ctx context.Context) time.Duration {
	d, _ := ctx.Deadline()
	return max(time.Until(d), 1)
}
