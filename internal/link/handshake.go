package link

import (
	"context"
	"fmt"

	"github.com/seed6c881748/redlock/internal/conn"
	"github.com/seed6c881748/redlock/internal/node"
)

// handshake loads the scripts, and finds out what the server can do. It notes that for the rules.
func (c *Config) handshake(ctx context.Context, w *conn.Wire, source *conn.Source, rules *node.Conn) (err error) {
	if err = w.Err(); err != nil {
		return err // A Pool around redigo's Get can report a failure only so.
	}
	if err = w.Abortable(ctx); err != nil {
		return err
	}
	steps := append([]conn.Step{c.writeProbe()}, c.scriptSteps()...)
	steps = append(steps, c.deletionSteps(rules)...)
	elsewhere := false
	if question, asks := source.DatabaseQuestion(w, c.Node.UnusedKey); asks {
		steps = append(steps, conn.Step{Command: question, Check: func(a conn.Answer) error {
			elsewhere = conn.IsElsewhere(a)
			return nil
		}})
	}
	var looks []conn.Answer
	if c.Dialect != nil {
		for _, question := range c.Dialect.Questions() {
			steps = append(steps, conn.Step{Command: question, Check: func(a conn.Answer) error {
				looks = append(looks, a)
				return nil
			}})
		}
	}
	if err = w.Run(ctx, steps); err != nil {
		return err
	}
	if elsewhere {
		if err = source.Misplaced(ctx, w, c.Node.UnusedKey); err != nil {
			return err
		}
	}
	if c.Dialect != nil {
		rules.Dialect, err = c.Dialect.Learn(ctx, w, looks)
	}
	return err
}

// deletionSteps try the commands that delete a key only if it has a given value. Many servers have none, or forbid
// them.
func (c *Config) deletionSteps(rules *node.Conn) (steps []conn.Step) {
	for _, command := range [][]any{{"DELIFEQ", c.Node.UnusedKey, ""}, {"DELEX", c.Node.UnusedKey, "IFEQ", ""}} {
		steps = append(steps, conn.Step{Command: command, Check: func(a conn.Answer) error {
			if a.Reply == int64(0) {
				rules.Deletes = command[0].(string)
			}
			return nil
		}})
	}
	return steps
}

// writeProbe returns a write that changes nothing. A replica refuses it; without the probe, it would count as up until
// somebody asks it for a lock, again and again. Servers that would grant a lock and refuse its release refuse the probe
// as well, as it is on two keys of the library's own: a Redis Cluster without a hash tag in the prefix, and a user who
// may not write these keys.
func (c *Config) writeProbe() conn.Step {
	return conn.Step{
		Command: []any{"DEL", c.Node.UnusedKey, c.Node.UnusedKey + "2"},
		Check: func(a conn.Answer) error {
			switch conn.ErrorCode(a.Err) {
			case "CROSSSLOT":
				return fmt.Errorf("a Redis Cluster takes a prefix with a hash tag: %w", a.Err)
			case "NOPERM":
				return fmt.Errorf("the user may not delete the library's own keys, so no lock could be released"+
					" (keys of its own need WithPrefix): %w", a.Err)
			default:
				return conn.WrongServer(a.Err)
			}
		},
	}
}

// scriptSteps load the scripts.
func (c *Config) scriptSteps() []conn.Step {
	steps := make([]conn.Step, len(c.Scripts))
	for i, s := range c.Scripts {
		steps[i] = conn.Step{Command: []any{"SCRIPT", "LOAD", s.Source}, Check: func(a conn.Answer) error {
			if a.Err != nil {
				return fmt.Errorf("loading the %s script: %w", s.Name, a.Err)
			}
			return nil
		}}
	}
	return steps
}
