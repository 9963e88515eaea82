package link

import (
	"fmt"
	"runtime"
	"time"

	"github.com/seed6c881748/redlock/internal/node"
)

// This file is about a pipeline's writer.

// enoughForAWrite is how many requests the writer has gathered when it stops
// waiting for more: shared by so many, a system call costs each of them little.
const enoughForAWrite = 32

// write is the writer's goroutine. It ends when the pipeline is over.
func (p *pipeline) write() {
	defer close(p.writerDone)
	for {
		dropped, more := p.next()
		if !more {
			return
		}
		drop(dropped)
		if p.put() != nil {
			return
		}
	}
}

// drop answers requests that are not sent any more.
func drop(dropped []*node.Request) {
	for _, q := range dropped {
		q.Deliver(node.Outcome{Err: node.ErrWithdrawn}, time.Now())
	}
}

// put writes the batch. An error ends the pipeline.
func (p *pipeline) put() (err error) {
	for i := range p.batch {
		if p.args, err = p.send(p.args[:0], &p.batch[i]); err != nil {
			break
		}
		if !p.wire.Encodes() {
			p.args = nil // A user's connection may keep them beyond the flush.
		}
	}
	if err == nil {
		err = p.wire.Flush()
	}
	clear(p.batch)
	clear(p.args)
	if err != nil {
		_ = p.abort(fmt.Errorf("writing: %w", err))
	}
	return err
}

// next waits for requests and takes them. more is false when the pipeline is over.
func (p *pipeline) next() (dropped []*node.Request, more bool) {
	l := p.link
	n := l.rules
	l.mu.Lock()
	defer l.finish()
	p.writing = false
	for p.gather(); p.writing && !p.c.IsOver(); p.gather() { // All were withdrawn, and a caller that is alone writes.
	}
	if p.c.IsOver() {
		return nil, false
	}
	p.batch, dropped = n.Next(p.c, p.batch[:0], time.Now())
	p.writing = true
	p.alone.goOn()
	return dropped, true
}

// gather waits until the writer has something to write, or the pipeline is over. link.mu is held.
func (p *pipeline) gather() {
	l, n := p.link, p.link.rules
	waited := false
	for (n.Queued(p.c) == 0 || p.writing) && !p.c.IsOver() {
		l.work.Wait()
		waited = true
	}
	// As long as other goroutines queue more, let them: a system call costs as
	// much as ten requests. With nobody else to run, yielding costs nothing.
	for seen := 0; waited && n.Queued(p.c) > seen && seen < enoughForAWrite; {
		seen = n.Queued(p.c)
		l.finish()
		runtime.Gosched()
		l.mu.Lock()
	}
}

// send writes one request into the buffer of redigo or the socket, or to a connection of the user's. args is scratch
// space, or nil.
func (p *pipeline) send(args []any, out *node.Sending) ([]any, error) {
	script, dialect := out.Command.Script, p.c.Dialect
	if script == nil {
		return args, p.wire.Send("PING")
	}
	if !script.Grants {
		dialect = nil
	}
	if dialect == nil && !out.Eval && out.Direct == out.Command.IsDirect() {
		if sent, err := p.wire.SendEncoded(out.Command.Encoded); sent {
			return args, err
		}
	}
	if out.Direct {
		verb, all := direct(&out.Command, p.c.Deletes, args)
		if err := p.wire.Send(verb, all...); err != nil {
			return all, err
		}
		return all, p.wire.Send("PTTL", out.Command.Keys[len(out.Command.Keys)-1])
	}
	verb, args := run(&out.Command, args, dialect, out.Eval, out.Forgot)
	return args, p.wire.Send(verb, args...)
}
