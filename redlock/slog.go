package redlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed6c881748/redlock/internal/dispatch"
)

// slogEvery is how often SlogHook logs failed rounds of one kind.
const slogEvery = 10 * time.Second

// SlogHook returns a hook that logs to logger, [slog.Default] if it is nil, and stays quiet while
// all is well. It may be given to several Redlocks. It logs
//
//   - a node's loss, with how many are left, or that none of its votes comes in time (warning), and
//     its return, with those that are still lost (info);
//   - clients with other nodes (warning, or info where quorums always meet), and when that is over (info);
//   - keys that a node has lost (warning), at most once a second for each node;
//   - what an outage is made of (warning): that more nodes are lost while one is, rounds without a quorum,
//     attempts that were turned away because of an overload, locks that KeepAlive or Do may be about to lose,
//     and, while a node is lost, those that have expired. There is at most one line in 10 s for all of these.
//     It has the number of those left out (left_out) and of locks lost among them (locks_lost), and so has the
//     line of a node's return;
//   - rounds that failed for other reasons (warning), at most one in 10 s for each operation and reason;
//     a taken lock is logged at debug level;
//   - each other lock that KeepAlive or Do have lost (warning);
//   - releases of locks that had ended before (warning), at most one in 10 s.
func SlogHook(logger *slog.Logger) Hook {
	if logger == nil {
		logger = slog.Default()
	}
	h := &slogHook{logger: logger, down: make(map[string]bool), rounds: make(map[string]*dispatch.Limiter)}
	return h.log
}

type slogHook struct {
	logger *slog.Logger

	mu     sync.Mutex                   // one hook may be given to several Redlocks; the logger is called with it held
	down   map[string]bool              // lost nodes; true: the loss was logged
	rounds map[string]*dispatch.Limiter // by operation and reason
	lost   int                          // locks lost in an outage, which no line has reported
}

// outage is the one kind of all lines about an outage.
const outage = "outage"

func (h *slogHook) log(ctx context.Context, e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch e.Kind {
	case EventNodeDown:
		h.down[e.Node] = h.nodeWorse(ctx, e, "redlock: node lost") || h.down[e.Node]
	case EventNodeUnresponsive:
		h.down[e.Node] = h.nodeWorse(ctx, e, "redlock: node does not vote in time") || h.down[e.Node]
	case EventKeysVanished:
		h.logger.WarnContext(ctx, "redlock: node has lost keys", "node", e.Node, "error", e.Err)
	case EventNodeUp:
		h.nodeBack(ctx, e)
	case EventNodeCleaned:
		h.logger.DebugContext(ctx, "redlock: node cleaned up", "node", e.Node, "unknown", e.Unknown, "cleaned", e.Cleaned)
	case EventDecided:
		if e.Err != nil && !e.Overtaken && (e.Op != OpUnlock || !errors.Is(e.Err, ErrLost)) { // EventReleased reports it.
			h.failed(ctx, e, "redlock: round failed")
		}
	case EventHoldAtRisk:
		h.limited(ctx, slog.LevelWarn, e, outage, "redlock: a lock that is kept may be lost", "resources", e.Resources, "until", e.Until, "error", e.Err)
	case EventHoldEnded:
		h.holdEnded(ctx, e)
	case EventReleased:
		if errors.Is(e.Err, ErrLost) {
			h.failed(ctx, e, "redlock: a lock was not held to its release")
		}
	case EventOverloaded:
		h.limited(ctx, slog.LevelWarn, e, outage, "redlock: more locks are asked for than the nodes can serve", "turned_away", e.TurnedAway)
	case EventPolling:
		h.nodeWorse(ctx, e, "redlock: no wake-ups from a node")
	case EventSetsDiffer:
		level := slog.LevelWarn
		if e.Set.QuorumsMeet {
			level = slog.LevelInfo
		}
		h.logger.Log(ctx, level, "redlock: another client has other nodes, or two nodes are one server", "node", e.Node, "error", e.Err)
	case EventSetsAgree:
		h.logger.InfoContext(ctx, "redlock: the sets of nodes no longer differ", "node", e.Node, "who", e.Set.Who)
	case EventSettled, EventWaiting, EventAcquired, EventNotAcquired, EventExtended, EventDone:
	}
}

// nodeWorse logs that a node is lost or unresponsive, and reports whether it did. Once one node is lost, others are
// likely part of the same outage, in which they may come and go all the time.
func (h *slogHook) nodeWorse(ctx context.Context, e Event, text string) bool {
	if len(h.down) > 0 && !h.down[e.Node] {
		return h.limited(ctx, slog.LevelWarn, e, outage, text, "node", e.Node, "error", e.Err)
	}
	h.logger.WarnContext(ctx, text, "node", e.Node, "error", e.Err)
	return true
}

// nodeBack logs the return of a node whose loss was logged. It names the nodes that are still lost, as no line may have
// named them.
func (h *slogHook) nodeBack(ctx context.Context, e Event) {
	logged := h.down[e.Node]
	delete(h.down, e.Node)
	if !logged {
		return
	}
	args := []any{"node", e.Node}
	if still := slices.Sorted(maps.Keys(h.down)); len(still) > 0 {
		args = append(args, "still_lost", still)
		for _, name := range still {
			h.down[name] = true
		}
	}
	h.logger.InfoContext(ctx, "redlock: node is back", h.withLeftOut(h.limiter(outage).Held(), args...)...)
}

// holdEnded logs losses: each may be work that went on without its lock. In an outage all locks expire; lines that are
// left out are counted by the time a node returns.
func (h *slogHook) holdEnded(ctx context.Context, e Event) {
	args := []any{"resources", e.Resources, "held", e.Held, "until", e.Until, "error", e.Err}
	switch {
	case errors.Is(e.Err, ErrExpired) && len(h.down) > 0:
		if !h.limited(ctx, slog.LevelWarn, e, outage, "redlock: a lock that was kept is lost", args...) {
			h.lost++
		}
	case errors.Is(e.Err, ErrLost):
		h.logger.WarnContext(ctx, "redlock: a lock that was kept is lost", args...)
	default:
		h.logger.DebugContext(ctx, "redlock: a lock is not kept any more", args...)
	}
}

func (h *slogHook) failed(ctx context.Context, e Event, text string) {
	level, reason := slog.LevelWarn, error(nil)
	for _, r := range []error{ErrTaken, ErrNoQuorum, ErrExpired, ErrLost, ErrClosed} {
		if errors.Is(e.Err, r) {
			reason = r
			break
		}
	}
	if reason == nil || errors.Is(reason, ErrTaken) || errors.Is(reason, ErrClosed) {
		level = slog.LevelDebug // Contention, a context that ended, Close: nothing is wrong.
	}
	kind := fmt.Sprint(e.Op, reason)
	if errors.Is(reason, ErrNoQuorum) || errors.Is(reason, ErrExpired) {
		kind = outage
	}
	args := []any{"op", e.Op, "resources", e.Resources, "error", e.Err}
	if len(e.Votes) > 0 {
		args = append(args, "votes", voteStrings(e.Votes))
	}
	h.limited(ctx, level, e, kind, text, args...)
}

// limited logs one line of a kind in slogEvery, and reports whether it did.
func (h *slogHook) limited(ctx context.Context, level slog.Level, e Event, kind, text string, args ...any) bool {
	if !h.logger.Enabled(ctx, level) {
		return false
	}
	leftOut, pass := h.limiter(kind).Pass(e.Time, slogEvery)
	if !pass {
		return false
	}
	h.logger.Log(ctx, level, text, h.withLeftOut(leftOut, args...)...)
	return true
}

// withLeftOut adds to a line, once, how much was left out before it.
func (h *slogHook) withLeftOut(lines int, args ...any) []any {
	if lines > 0 {
		args = append(args, "left_out", lines)
	}
	if h.lost > 0 {
		args = append(args, "locks_lost", h.lost)
		h.lost = 0
	}
	return args
}

func (h *slogHook) limiter(kind string) *dispatch.Limiter {
	l := h.rounds[kind]
	if l == nil {
		l = new(dispatch.Limiter)
		h.rounds[kind] = l
	}
	return l
}

func voteStrings(votes []Vote) []string {
	s := make([]string, len(votes))
	for i, v := range votes {
		s[i] = v.String()
	}
	return s
}
