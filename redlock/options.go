package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed6c881748/redlock/internal/calls"
	"github.com/seed6c881748/redlock/internal/quarantine"
	"github.com/seed6c881748/redlock/internal/reserved"
	"github.com/seed6c881748/redlock/internal/tokens"
)

// An Option changes a setting. Options given to New are the defaults of that Redlock. Options given to a call
// override them for that call and, where they affect Extend and Unlock, for the lock that it returns. A zero is a
// real zero, never "use the default": to use the default, leave the option out.
//
// New or the call returns an error, before any I/O, for a value that an option does not allow.
// A call does so, too, for an option that is "for New only".
type Option func(*options) error

// option returns an Option that sets something, or the error wrong.
func option(wrong error, set func(*options)) Option {
	return func(o *options) error {
		if wrong == nil {
			set(o)
		}
		return wrong
	}
}

// forNew returns an Option that only New accepts.
func forNew(name string, opt Option) Option {
	return func(o *options) error {
		if !o.ofNew {
			return fmt.Errorf("redlock: %s is an option for New, not for a call", name)
		}
		return opt(o)
	}
}

// options are the settings of a Redlock or of one call.
type options struct {
	ofNew       bool // they are being set by New
	retryCount  int
	retryDelay  time.Duration
	retryJitter time.Duration // jitter, or retryDelay if that is shorter
	jitter      time.Duration // as it was set

	// What the options of this call, or of New, have set: a jitter or a turn from elsewhere is clipped.
	delayHere, jitterHere, waitHere, countHere, turnHere bool

	polling, fencing, silent bool
	freeOnError              bool          // Do leaves no keys if its function has failed
	wait                     time.Duration // how long Lock and Do wait, instead of retryCount; negative: by retryCount

	backoff        func(attempt int) time.Duration // instead of retryDelay; nil: none
	retryIf        func(error) bool                // nil: retryDefault
	onBehalf       *calls.Since                    // of those on whose behalf a call waits; nil: it waits for itself
	oneOf          int32                           // how many locks serve the same waiters; 0: one
	driftFactor    float64
	nodeTimeout    time.Duration
	connectTimeout time.Duration
	connectionAge  time.Duration // 0: none
	minHold        time.Duration
	maxHold        time.Duration // 0: none
	stopTime       time.Duration
	turn           time.Duration // 0: none
	fenceLife      time.Duration
	owner          string
	quarantine     time.Duration // the longest ttl; 0: none
	prefix         string
	setName        string
	hook           Hook
	tracer         Tracer
}

// defaultOptions returns the settings without any option. Retry count, delay, jitter and drift factor are those of
// node-redlock, so that mixed fleets behave alike.
func defaultOptions() options {
	return options{
		ofNew:          true,
		retryCount:     10,
		wait:           -1,
		retryDelay:     200 * time.Millisecond,
		delayHere:      true,
		jitter:         100 * time.Millisecond,
		driftFactor:    0.01,
		nodeTimeout:    250 * time.Millisecond,
		connectTimeout: time.Second,
		connectionAge:  time.Hour,
		fenceLife:      7 * 24 * time.Hour,
	}
}

// WithRetryCount sets how many timed attempts Lock and Do make after the first one: 0 is a single attempt, -1 goes on
// until the context ends. Attempts that a release sets off do not count. One that finds the lock free, but left to
// whoever has waited longest, is put off once, by at most 0.2 s, and then counts. TryLock ignores it, like all
// options about retries. Default 10, which is about 2 s with the default delay.
func WithRetryCount(n int) Option {
	return option(wrongIf(n < -1, "retry count %d: must be -1 (forever), 0 or more", n), func(o *options) { o.retryCount, o.countHere = n, true })
}

// WithWait has Lock and Do wait for at most d until they have the lock, by timed retries and as releases are heard of,
// whatever the retry count; 0 is a single attempt. It limits the wait alone. A context limits what it is given to: that
// of Do ends the work as well, and that of Lock the wait. An attempt that is under way when d is over is cut short, so
// d should be longer than the node timeout. The error is that of the last attempt that was not cut short, if there is
// one, and says how long the call has waited; it does not match context.DeadlineExceeded.
//
// Among options of one call, or of New, it goes before WithRetryCount. A call with WithRetryCount alone has no such
// limit, also if New was given one. TryLock does not wait: it ignores that of New, and refuses one of its own. d must
// not be negative, nor exceed 24 h. Default: by the retry count.
func WithWait(d time.Duration) Option {
	return option(outside("wait", d), func(o *options) { o.wait, o.waitHere = d, true })
}

// WithRetryDelay sets the mean time that Lock waits between timed attempts. In an overload it
// waits longer; see [Redlock.Lock]. Default 200 ms, at most 24 h.
func WithRetryDelay(d time.Duration) Option {
	return option(outside("retry delay", d), func(o *options) { o.retryDelay, o.delayHere = d, true })
}

// WithRetryJitter sets how far the wait between timed attempts strays from the retry delay: it is uniform in delay ±
// jitter. Default 100 ms. A jitter that exceeds the delay is an error if New, or one call, sets both. If a call sets
// only one of them, the jitter is then as long as the delay.
func WithRetryJitter(d time.Duration) Option {
	return option(below("retry jitter", d), func(o *options) { o.jitter, o.jitterHere = d, true })
}

// WithRetryBackoff replaces the retry delay: f returns how long Lock waits before each timed
// retry. attempt is 1 before the first one. A negative result ends the wait, as when the retry
// count is used up; any other is raised to 1 ms or cut to 24 h. The jitter still applies, and is
// at most what f returns. f is called on the goroutine that called Lock.
//
// A release wakes a waiter all the same. So f matters when nodes are down, and when nobody hears
// of a release: the holder died, or uses another library. With delays above 30 s a waiter may
// lose its place in the nodes' lines, and then polls. Default: none.
func WithRetryBackoff(f func(attempt int) time.Duration) Option {
	return option(wrongIf(f == nil, "WithRetryBackoff: nil function"), func(o *options) { o.backoff = f })
}

// WithRetryIf sets which failures of an attempt Lock retries: f gets the *[QuorumError], and false gives up at once.
// To fail fast when nodes are down, retry ErrTaken only. Default: ErrTaken and ErrNoQuorum.
//
// f is called on the goroutine that called Lock and should not take long, as other calls that want one of its
// resources may stand behind it. It must not wait for Close, which waits for that call.
func WithRetryIf(f func(err error) bool) Option {
	return option(wrongIf(f == nil, "WithRetryIf: nil function"), func(o *options) { o.retryIf = f })
}

// WithPolling has Lock wait by polling only: it asks the nodes after every retry delay, and no
// release wakes it. It stands in no line, so chance decides who gets a lock. It does not open the
// connections on which waiters hear of releases. Default: off.
func WithPolling() Option { return option(nil, func(o *options) { o.polling = true }) }

// WithDriftFactor sets the share of the ttl that is given up because clocks run at different rates: the validity is
// ttl - (f*ttl + 2ms). The 2 ms are for Redis, which counts in whole milliseconds. 0 <= f < 1. Default 0.01, which
// covers two clocks that are each up to 0.5 % off.
func WithDriftFactor(f float64) Option {
	wrong := math.IsNaN(f) || f < 0 || f >= 1
	return option(wrongIf(wrong, "drift factor %v: must be at least 0 and below 1", f), func(o *options) { o.driftFactor = f })
}

// WithNodeTimeout bounds how long a round waits for a node, everything included: queueing, the network, the script,
// and connecting if the call has not waited for that before; see [WithConnectTimeout]. A call ends within it even
// when all nodes are silent. Lock does so for each attempt; an attempt may take it once more to resolve a split vote,
// and once more to raise counters for a fence.
//
// Keep it small against the ttl, as the time of a round comes off the validity. But with less than the default,
// attempts fail on healthy nodes: a lost packet costs 200 ms on Linux, the least time after which TCP sends it again.
//
// A connection counts as broken when a request has had no answer for twice the node timeout,
// but at least for 1 s. Default 250 ms, more than 0 and at most 24 h.
func WithNodeTimeout(d time.Duration) Option {
	wrong := cmp.Or(wrongIf(d <= 0, "node timeout %v: must be positive", d), outside("node timeout", d))
	return option(wrong, func(o *options) { o.nodeTimeout = d })
}

// WithConnectTimeout bounds how long an attempt to lock, an Inspect or a Release waits for
// connections before it begins. It waits only while no quorum is connected, as in the first call
// of a process and after connections have broken. This is separate from the node timeout, since
// connecting to a far node with TLS and a password takes several round trips.
//
// No call waits for nodes whose last attempt to connect has failed, or that were given up as
// silent. The wait does not shorten the validity. An attempt to connect goes on in the background,
// for at least d. With 0 there is no wait. For New only. Default 1 s, at most 24 h.
func WithConnectTimeout(d time.Duration) Option {
	return forNew("WithConnectTimeout", option(outside("connect timeout", d), func(o *options) { o.connectTimeout = d }))
}

// WithConnectionAge has connections to nodes be made anew before they are d old, though they work: the first to each
// node when a part of d has passed that is drawn between three quarters and all of it, so that they do not change at
// once. A node's name may lead to another server by then. A process that stayed with the old one would exclude nobody
// who has come later, for as long as both live; see [WithQuarantine] for what else that takes.
//
// No request fails, and no event is sent: the new connection is made ready while the old one serves, and takes over
// with its last answer. If that does not come within the node timeout, or no second connection can be had, the old
// one goes on, and the next attempt comes 30 s later. With a *redis.Pool the new connection is made by its Dial, and
// not one that it has kept; the pool has a place for it if MaxActive is at least two, or three while callers wait.
// Connections of other pools must be new ones when GetContext returns them.
//
// 0 is never. For New only. Default 1 h, at most 24 h.
func WithConnectionAge(d time.Duration) Option {
	return forNew("WithConnectionAge", option(outside("connection age", d), func(o *options) { o.connectionAge = d }))
}

// WithMinHold has Unlock leave the keys until d after the caller got the lock: after Lock or TryLock
// returned it, or [Redlock.Do] called its function. It is for a job that must not run twice within
// d, on machines whose clocks and durations differ a bit. Until then the resource is taken, even
// for its former holder, and even if the holder dies. Do leaves no keys if it has not called its
// function. The nodes time d, from the last step of the call. So add the error of their clocks, and
// the longest pause of a process between that step and the caller's next one.
//
// A machine that is refused should wait, as the other one may get no lock in the end. Its wait, and the
// time by which the callers' starts differ, must together be shorter than d.
//
// A ttl that leaves less than d after the longest attempt (three node timeouts, or the validity)
// is raised. d must not be negative, nor exceed the ttl. Default 0.
func WithMinHold(d time.Duration) Option {
	return option(below("min hold", d), func(o *options) { o.minHold = d })
}

// WithReleaseOnError has Do delete the keys at once if its function returns an error or panics, although [WithMinHold] is
// not over: a job that has failed gives its turn back, and may be tried again. It changes nothing if the function has
// called Unlock itself, and nothing else: a holder that dies keeps others out until the keys end. Default: off.
func WithReleaseOnError() Option { return option(nil, func(o *options) { o.freeOnError = true }) }

// WithMaxHold limits how long KeepAlive and Do hold a lock, counted from the start of the
// attempt that got it. Then their contexts end with the cause ErrMaxHold, and the lock is no
// longer extended. Time for which the machine sleeps does not count. d must be positive. Default: no limit.
func WithMaxHold(d time.Duration) Option {
	return option(cmp.Or(wrongIf(d <= 0, "max hold %v: must be positive", d), below("max hold", d)), func(o *options) { o.maxHold = d })
}

// WithTurn has Unlock pass the lock on to the next caller in this process that waits for the same resources with the
// option, without a word to the nodes, until d after this process got it. Then it is released as ever, and whoever has
// waited longest comes, in any process. It is for a resource that many goroutines of a process want: a hand-over takes
// microseconds instead of round trips to all nodes. See docs/waiting.md.
//
// Each caller gets a Lock of its own, with its Until, its KeepAlive, its fence and its events. Until may be up to a tenth
// of the validity earlier than that of a lock that comes from the nodes. [WithMaxHold] counts from the pass.
//
// A lock is passed on only while it is held by [Lock.Err]'s clocks, and nil from [Lock.Unlock] then means just that: no
// quorum was asked. Nodes, and so [Lock.Holder] and [Redlock.Inspect], show the digest and the owner of the first lock of
// the turn. [Lock.Token] is a name of its own, which [Redlock.Release] refuses.
//
// The turn also ends when the first in line wants other resources, has no such option, or asks for a shorter ttl or a
// longer fence life than the lock has. TryLock takes no part, nor do calls with WithPolling or a retry count of 0. Whoever
// polls, such as clients of other libraries, finds the resource free only between two turns.
//
// d must not be negative, nor exceed a tenth of the validity; one that New was given is cut to that. It does not go
// together with [WithMinHold]: a call that sets one of them must set the other to 0 if New was given it. Good values are
// 5 ms to 20 ms. Default 0: none.
func WithTurn(d time.Duration) Option {
	return option(below("turn", d), func(o *options) { o.turn, o.turnHere = d, true })
}

// WithStopTime is for work that takes up to d to stop when its context ends. Until is the end of the lock, not the
// time to begin to stop: without d, such work goes on while somebody else may have the lock. KeepAlive and Do end
// their contexts d before Until, with the cause ErrStopTime, if no extension has succeeded by then. The lock is held
// until Until all the same, and its Err is nil. Nothing but Extend extends it any more, so Unlock it when the work
// has stopped. If the contexts end because of WithMaxHold, Close or their own parent, d is left, too. It is not left
// if the lock is lost before Until (ErrLost), nor after a suspend of the machine.
//
// Extensions begin when a third of what d leaves of the validity is over. d must not be negative,
// and must be shorter than the validity, which is the ttl less the drift allowance. Default 0.
func WithStopTime(d time.Duration) Option {
	return option(below("stop time", d), func(o *options) { o.stopTime = d })
}

// WithFencing gives every lock a fencing token, [Lock.Fence]: a number that is larger for the later of two locks on a
// resource, whatever clocks, pauses and expiries do. A holder sends it with every write, and the resource refuses
// writes with a smaller one than it has seen. So work is safe even if a holder goes on after its lock has ended,
// provided that the resource checks; see docs/fencing.md and [Guard].
//
// All holders that write to the resource need the option. Clients with and without it exclude
// each other, but those without it have no fence.
//
// It takes no further round trip as long as a quorum of the nodes' counters agrees. They do unless nodes were missing
// for a while, attempts have failed, or a node's clock is more than a second behind. Every resource leaves a key for
// its counter on every node; see [WithFenceLife]. Default: off.
func WithFencing() Option { return option(nil, func(o *options) { o.fencing = true }) }

// WithFenceLife sets for how long nodes keep a resource's counter after the last lock with [WithFencing], or its last
// extension. The most recent client's setting applies, so all clients of a resource should use the same. d must be at
// least the ttl. Default 7 days. If holders of a resource must never be confused, use years.
//
// A counter that has expired is lost data. After that, fences still grow with time: with the client's clock in µs, or
// with the node's if the client's is more than a second off it. That holds as long as the nodes' clocks differ by
// less than the time for which nobody held the lock, less two seconds.
func WithFenceLife(d time.Duration) Option {
	return option(wrongIf(d < time.Millisecond, "fence life %v: must be at least 1ms", d), func(o *options) { o.fenceLife = d })
}

// WithOwner gives every lock a label that says who holds it, for example the host and the process, or the job.
// Whoever is refused sees it in [Vote.Owner] and in the text of a *[QuorumError]; [Redlock.Inspect] and events show
// it, too. It means nothing to the library: two locks with the same label exclude each other like any others.
//
// The label is stored with the lock, as a part of its token, so every client of the nodes can read it: put no secret
// into it. The part of the token that is needed to release the lock is not shown. Clients that know nothing of labels
// exclude these locks like any others. A label makes every request about the lock longer.
//
// At most 128 bytes of printable UTF-8, without line breaks and other control characters. Default "": none.
func WithOwner(label string) Option {
	return option(tokens.CheckLabel(label), func(o *options) { o.owner = label })
}

// WithPrefix puts p in front of every key. Clients exclude each other only if prefix and resource together are equal.
// Waiters hear only of releases by clients with the same prefix. Only fences of locks with the same prefix can be
// compared. For New only. Default "": the key is the resource itself, as in node-redlock and redsync. A Redis
// Cluster, which may be the only node, needs a hash tag: WithPrefix("{locks}:").
func WithPrefix(p string) Option {
	wrong := wrongIf(reserved.Has(p), "prefix %q: %q is reserved", p, reservedMark)
	return forNew("WithPrefix", option(wrong, func(o *options) { o.prefix = p }))
}

// WithSetName names the set of nodes. Clients that share a node and a prefix, but were given other nodes, are told of
// each other (EventSetsDiffer), but not if their sets have other names, or one has none: it is for services that share
// a node on purpose, and no resource. It excludes nobody from anything. For New only. Default: no name.
func WithSetName(name string) Option {
	return forNew("WithSetName", option(wrongIf(len(name) > 100, "set name of %d bytes: must not exceed 100", len(name)), func(o *options) { o.setName = name }))
}

// WithQuarantine keeps out second holders when nodes lose data. A node that may have forgotten locks grants none for
// maxTTL + 1 s, counted from when a client first sees it so. By then every forgotten lock has ended. Such a node is
// new, has restarted, was emptied, or has taken over another's address; the one that had it before must be dead, or a
// replica of the new one, as clients are with it until their connections end (see [WithConnectionAge]). (The Redis
// documentation calls it delayed restarts.) Without it, and without appendfsync always, one restart can let a second
// holder in.
//
// Such a node's vote is ErrQuarantined, with the time left in HolderTTL. Lock waits for that time as for a holder;
// with WithPolling, it waits for its next attempt. Extend and Unlock go on as always. A new cluster grants its first
// lock after maxTTL, or when [Redlock.Admit] says that it may.
//
// maxTTL is the longest ttl that a client may lock or extend for: more is an error before any I/O. Nodes remember the
// largest maxTTL of the clients that have asked them, and abstain for that long; so it can be raised client by
// client, and only [Redlock.Admit] lowers it. Nodes also remember for how many nodes they are set up, and grant
// nothing to a client with another number (ErrConfigMismatch), but for the first neighbour that comes: 3 and 4, say,
// until [Redlock.Admit] leaves one of them. docs/operations.md says how to change either. A client without the option
// is not held back by any of this.
//
// It costs the nodes a few microseconds for each lock, and takes the right to INFO. For New
// only. maxTTL must be at least 1 ms and at most 30 days. Default: off.
func WithQuarantine(maxTTL time.Duration) Option {
	wrong := wrongIf(maxTTL < time.Millisecond || maxTTL > quarantine.MaxTTL,
		"quarantine's maxTTL %v: must be at least 1ms and at most %v", maxTTL, quarantine.MaxTTL)
	return forNew("WithQuarantine", option(wrong, func(o *options) { o.quarantine = maxTTL }))
}

// WithHook has h called with every [Event]; [SlogHook] returns a ready hook. For New only.
// Default: none; then one warning is logged, see [WithoutLog].
func WithHook(h Hook) Option {
	return forNew("WithHook", option(nil, func(o *options) { o.hook = h }))
}

// WithoutLog has the Redlock log nothing by itself. Without it, and without a hook, it warns by slog's default
// logger, once for each node, when it has not been able to connect to that node since the start; see [New]. For
// New only.
func WithoutLog() Option {
	return forNew("WithoutLog", option(nil, func(o *options) { o.silent = true }))
}

// WithTracer has t follow calls from their beginning, and get the events that it wants; see
// [Tracer]. It may be given besides WithHook. For New only. Default: none.
func WithTracer(t Tracer) Option {
	return forNew("WithTracer", option(nil, func(o *options) { o.tracer = t }))
}

func (o *options) apply(opts []Option) error {
	o.waitHere, o.countHere, o.turnHere = false, false, false
	for _, opt := range opts {
		if opt == nil {
			return errors.New("redlock: nil Option")
		}
		if err := opt(o); err != nil {
			return err
		}
	}
	switch {
	case o.countHere && !o.waitHere:
		o.wait = -1
	case o.wait > 0:
		o.retryCount = -1
	case o.wait == 0:
		o.retryCount = 0
	}
	o.retryJitter = min(o.jitter, o.retryDelay)
	both := o.delayHere && o.jitterHere
	o.ofNew, o.delayHere, o.jitterHere = false, false, false // They do not hold for the next call.
	if o.turn > 0 && o.minHold > 0 {
		return fmt.Errorf("redlock: turn %v: cannot be combined with a min hold, which is %v: keys that a release leaves are passed on to nobody", o.turn, o.minHold)
	}
	return wrongIf(both && o.jitter > o.retryDelay, "retry jitter %v: must not exceed the retry delay %v", o.jitter, o.retryDelay)
}
