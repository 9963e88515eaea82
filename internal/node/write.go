package node

import (
	"fmt"
	"runtime"
	"time"
)

// This file is about a pipeline's writer.

const (
	// maxBatch bounds how many requests are written before the flush.
	maxBatch = 256

	// enoughForAWrite is how many requests the writer has gathered when it stops
	// waiting for more: shared by so many, a system call costs each of them little.
	enoughForAWrite = 32
)

// A wireRequest is a request as the writer sees it: a copy, because the request
// itself may be answered, and sent again, before the batch is written.
type wireRequest struct {
	cmd    Command
	direct bool
	eval   bool
	forgot bool // as the node's
}

// write is the writer: it ends when the pipeline is over.
func (p *pipeline) write() {
	defer close(p.writerDone)
	var batch []wireRequest
	var args []any
	for {
		var dropped []*Request
		var more bool
		if batch, dropped, more = p.next(batch[:0]); !more {
			return
		}
		for _, q := range dropped {
			q.deliver(Outcome{Err: ErrWithdrawn}, time.Now())
		}
		err := error(nil)
		for i := range batch {
			if args, err = p.send(args[:0], &batch[i]); err != nil {
				break
			}
			if !p.wire.Encodes() {
				args = nil // They are the connection's, which may keep them beyond the flush.
			}
		}
		if err == nil {
			err = p.wire.Flush()
		}
		clear(batch)
		clear(args)
		if err != nil {
			_ = p.abort(fmt.Errorf("writing: %w", err))
			return
		}
	}
}

// next waits for requests and moves them to the flight; false when the pipeline
// is over. From here on their outcome is unknown until the reply is read. Those
// dropped must not be sent any more.
func (p *pipeline) next(batch []wireRequest) (_ []wireRequest, dropped []*Request, more bool) {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	waited := false
	for (n.queue.len == 0 || p.holds) && !p.over {
		n.work.Wait()
		waited = true
	}
	// As long as other goroutines queue more, let them: a system call costs as
	// much as ten requests. With nobody else to run, yielding costs nothing.
	for seen := 0; waited && n.queue.len > seen && seen < enoughForAWrite; {
		seen = n.queue.len
		n.mu.Unlock()
		runtime.Gosched()
		n.mu.Lock()
	}
	if p.over {
		return nil, nil, false
	}
	now := time.Since(n.epoch)
	if now-n.vanished.read >= readEvery {
		n.vanished.readClocks(time.Now())
	}
	for limit := maxBatch; len(batch) < limit; {
		q := n.queue.pop()
		if q == nil {
			break
		}
		switch {
		case q.Trace != nil && q.Kind != Release && q.mark()&MarkReleased != 0,
			q.Kind == RepairRequest && now > q.gone:
			// Its release came first, and is on the wire; or the lock has lapsed.
			dropped = append(dropped, q)
			continue
		}
		if q.Trace != nil {
			q.note(Written)
		} else if q == p.last {
			p.holds, limit = true, len(batch)+1
		}
		q.sent, q.direct = now, p.mayBeDirect(q)
		n.inFlight.push(q)
		cmd := q.Command
		if cmd.Timed {
			cmd, _ = q.Trace.owner.Release(time.Now(), q.due != nil) // It may have waited.
		}
		batch = append(batch, wireRequest{cmd, q.direct, q.Eval, n.forgot})
	}
	if p.dozing {
		p.dozing = false
		if now := time.Now(); p.pause(now) < MinStandstill { // Or the watchdog is to notice it.
			p.sleep(now, WatchInterval)
		} else {
			p.watchdog.Reset(0) // It may not be due for long: its timer stood still, too.
		}
	}
	return batch, dropped, true
}

// send writes one request into redigo's buffer, or the socket's, or hands it to a connection of the user's.
// args is scratch space; if it is nil, there is none.
func (p *pipeline) send(args []any, out *wireRequest) ([]any, error) {
	script, dialect := out.cmd.Script, p.dialect
	if script == nil {
		return args, p.wire.Send("PING")
	}
	if !script.Grants {
		dialect = nil
	}
	if dialect == nil && !out.eval && out.direct == out.cmd.isDirect() {
		if sent, err := p.wire.SendEncoded(out.cmd.encoded); sent {
			return args, err
		}
	}
	if out.direct {
		args = out.cmd.directArgs(args)
		if err := p.wire.Send("SET", args...); err != nil {
			return args, err
		}
		return args, p.wire.Send("PTTL", args[:1:1]...)
	}
	verb, args := out.cmd.run(args, dialect, out.eval, out.forgot)
	return args, p.wire.Send(verb, args...)
}
