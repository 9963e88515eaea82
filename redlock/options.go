package redlock

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Defaults of the options. Retry count, delay, jitter and drift factor are
// node-redlock's.
const (
	DefaultRetryCount  = 10
	DefaultRetryDelay  = 200 * time.Millisecond
	DefaultRetryJitter = 100 * time.Millisecond
	DefaultDriftFactor = 0.01
	DefaultNodeTimeout = 250 * time.Millisecond

	DefaultConnectTimeout = time.Second
	DefaultFenceLife      = 7 * 24 * time.Hour
)

// maxWait bounds the durations that options set: what is longer is a mistake of
// units, and sums of them must not overflow.
const maxWait = 24 * time.Hour

// An Option changes a setting. Options given to New are the defaults of that
// Redlock; options given to a call override them for that call and, where they
// bind Extend and Unlock, for the lock that it returns. TryLock ignores the
// retry options. A zero is a real zero, never "use the default": leave an option
// out for that.
type Option func(*options)

// options are the settings of a Redlock or of one call.
type options struct {
	retryCount  int
	retryDelay  time.Duration
	retryJitter time.Duration
	jitterSet   bool                            // WithRetryJitter was given
	backoff     func(attempt int) time.Duration // instead of retryDelay; nil: none
	backoffSet  bool                            // WithRetryBackoff was given
	retryIf     func(error) bool
	retryIfSet  bool // WithRetryIf was given
	polling     bool
	driftFactor float64
	nodeTimeout time.Duration

	connectTimeout time.Duration

	minHold    time.Duration
	maxHold    time.Duration // 0: none
	maxHoldSet bool
	fencing    bool
	fenceLife  time.Duration
	owner      string
	quarantine time.Duration // the longest ttl; 0: none

	quarantineSet bool
	prefix        string
	hook          Hook

	newOnly string // the last option given that only New takes
}

func defaultOptions() options {
	return options{
		retryCount:  DefaultRetryCount,
		retryDelay:  DefaultRetryDelay,
		retryIf:     retryDefault,
		driftFactor: DefaultDriftFactor,
		nodeTimeout: DefaultNodeTimeout,

		connectTimeout: DefaultConnectTimeout,

		fenceLife: DefaultFenceLife,
	}
}

func retryDefault(err error) bool {
	return errors.Is(err, ErrTaken) || errors.Is(err, ErrNoQuorum)
}

// WithRetryCount sets how many timed attempts Lock makes after the first one.
// 0 is a single attempt, -1 goes on until the context ends. Default 10. Attempts that
// a release sets off do not count.
func WithRetryCount(n int) Option { return func(o *options) { o.retryCount = n } }

// WithRetryDelay sets the mean time that Lock waits between timed attempts; in an
// overload it waits for longer, see [Redlock.Lock].
// Default 200 ms, at most 24 h.
func WithRetryDelay(d time.Duration) Option { return func(o *options) { o.retryDelay = d } }

// WithRetryJitter sets how far the wait between attempts strays from the retry
// delay: it is uniform in delay ± jitter. It must not exceed the delay.
// Default 100 ms, or the delay where that is shorter.
func WithRetryJitter(d time.Duration) Option {
	return func(o *options) { o.retryJitter, o.jitterSet = d, true }
}

// WithRetryBackoff has f say how long Lock waits before each timed retry, instead of the
// retry delay: attempt is 1 before the first one. The jitter stays, and is at most what f
// returns, which counts as 0 if it is negative and as 24 h if it is longer. Exponential
// backoff from 50 ms to 5 s is
//
//	WithRetryBackoff(func(attempt int) time.Duration {
//		return min(50*time.Millisecond<<min(attempt-1, 10), 5*time.Second)
//	})
//
// A waiter is told of a release all the same, so this is for nodes that are down and for
// holders that tell nobody: those that died, and clients of other libraries. With delays
// above 30 s it may lose its place in the nodes' lines, and polls then. f is called on the
// goroutine that called Lock.
func WithRetryBackoff(f func(attempt int) time.Duration) Option {
	return func(o *options) { o.backoff, o.backoffSet = f, true }
}

// WithRetryIf sets which failures of an attempt Lock retries: f gets the
// *QuorumError, and false gives up at once. By default ErrTaken and ErrNoQuorum
// are retried; to fail fast when nodes are down, retry ErrTaken only.
// f is called on the goroutine that called Lock, and should not take long: other
// calls that want one of its resources may stand behind it. It must not wait for
// Close, which waits for that call. TryLock does not use it.
func WithRetryIf(f func(err error) bool) Option {
	return func(o *options) { o.retryIf, o.retryIfSet = f, true }
}

// WithPolling has Lock wait by polling only: it asks the nodes after every retry
// delay and is not woken by a release. It stands in no line, neither in this
// process nor on the nodes, so that who gets a lock is left to chance, and does
// not open the connections on which releases are heard of.
func WithPolling() Option { return func(o *options) { o.polling = true } }

// WithDriftFactor sets the share of the ttl that is given up because clocks run
// at different rates: the validity is ttl - (factor*ttl + 2ms). Default 0.01,
// which covers two clocks that are each up to 0.5 % off. 0 <= f < 1.
func WithDriftFactor(f float64) Option { return func(o *options) { o.driftFactor = f } }

// WithNodeTimeout bounds how long a round waits for a node, everything
// included: queueing, the network, the script, and connecting where that was not waited
// for before; see [WithConnectTimeout]. A call
// ends within it even when all nodes are silent (Lock: within it per attempt,
// and once more each where a split vote has to be resolved and where counters have to
// be raised for a fence). Keep it small against
// the ttl: what a round takes comes off the validity. But a packet that is lost costs
// 200 ms on Linux, the least time after which TCP sends it again, so that less than
// the default fails attempts on healthy nodes. A connection counts as
// broken when a request has had no answer for twice this long, at least 1 s.
// Default 250 ms, at most 24 h.
func WithNodeTimeout(d time.Duration) Option { return func(o *options) { o.nodeTimeout = d } }

// WithConnectTimeout bounds how long an attempt of Lock, TryLock or Do, or an Inspect,
// waits before it begins for nodes that are being connected to, if it cannot reach a
// quorum without them: the first one of a process, or after the connections have broken.
// With TLS and a password to a far node, connecting takes several round trips, and longer
// than the node timeout. Nodes whose last attempt to connect has failed, or that were
// given up as silent, are not waited for; nor is anything once a quorum is connected.
// What it takes comes off no validity. 0 does not wait. Attempts to connect go on in the
// background, each for at least as long. For New only. Default 1 s, at most 24 h.
func WithConnectTimeout(d time.Duration) Option {
	return func(o *options) { o.connectTimeout, o.newOnly = d, "WithConnectTimeout" }
}

// WithMinHold has Unlock leave the keys until d after the start of the attempt
// that got the lock: a job that must not run twice within d, on machines whose
// clocks and durations differ a bit, takes the lock for it. Until then the
// resource is taken, also for its former holder. A Do that fails before it has called its
// function leaves nothing. It must not exceed the ttl.
// Default 0.
func WithMinHold(d time.Duration) Option { return func(o *options) { o.minHold = d } }

// WithMaxHold limits how long KeepAlive and Do hold a lock, counted from the start
// of the attempt that got it: then their context ends with ErrMaxHold as its
// cause, and the lock is not extended any more. Default: no limit.
func WithMaxHold(d time.Duration) Option {
	return func(o *options) { o.maxHold, o.maxHoldSet = d, true }
}

// WithFencing gives every lock a fencing token, [Lock.Fence]: a number that is larger
// for the later of two locks on a resource, whatever clocks, pauses and expiries do. A
// holder sends it with every write, and the resource refuses writes with a smaller one
// than it has seen. That makes work safe even when a holder goes on after its lock has
// ended, provided that the resource checks; see docs/fencing.md and [Guard].
//
// All holders of a resource that write to it need the option. Those without it still
// exclude each other and the ones with it, but have no fence.
//
// It takes no further round trip as long as a quorum of the nodes' counters agrees,
// which it does unless nodes were missing for a while, attempts have failed, or a node's
// clock is more than a second behind. Every resource leaves
// a key for its counter on every node; see [WithFenceLife].
func WithFencing() Option { return func(o *options) { o.fencing = true } }

// WithFenceLife sets for how long nodes keep a resource's counter after the last
// lock, or the last extension of one, with [WithFencing]. A counter that has expired
// is lost data: after it the fences still grow, by the client's clock in µs, or the node's
// if the client's is more than a second off it, as long as the nodes' clocks differ by less
// than the time for which nobody held the lock, less two seconds. All clients of a resource should use the same: the last one's counts. It must
// be at least the ttl. Default 7 days; for resources that must never
// be confused, take years.
func WithFenceLife(d time.Duration) Option { return func(o *options) { o.fenceLife = d } }

// WithOwner gives every lock a label that says who holds it, for example the host and
// the process, or the job. Whoever is refused sees it: in [Vote.Owner], and so in the text
// of a *[QuorumError], in [Redlock.Inspect], and in events. It says nothing to the
// library: two locks with the same label exclude each other as any others.
//
// It is stored with the lock, as a part of its token, so that every client of the nodes
// can read it: put no secret into it. The part of the token that is needed to release the
// lock is not shown. Clients that know nothing of labels exclude these locks as any
// others.
//
// At most 128 bytes of printable UTF-8, without line breaks and other control characters.
// Default "": none. A lock without a label sends what it sent before; a label is sent once
// more with every request about the lock.
func WithOwner(label string) Option { return func(o *options) { o.owner = label } }

// WithPrefix puts p in front of every key. Clients exclude each other only if
// prefix and resource together are equal; waiters hear only of releases by clients
// with the same prefix, and only their fences compare. For New only. Default "": the key is the resource itself, as
// in node-redlock and redsync.
func WithPrefix(p string) Option {
	return func(o *options) { o.prefix, o.newOnly = p, "WithPrefix" }
}

// WithQuarantine keeps a node that is new, has restarted or was emptied, and one that
// took over another's address, from granting locks for maxTTL and a second, counted from when a client first meets it
// so: by then no lock can be held any more that the node has forgotten. Without it, and
// without `appendfsync always`, one restart can let a second holder in. (The Redis
// documentation calls it delayed restarts.) Such a node's vote is ErrQuarantined, with
// the time left in HolderTTL; Lock waits for that as for a holder (with WithPolling, for
// the next attempt). Extend and Unlock go on as always. A new cluster grants its first lock after maxTTL, or when [Redlock.Admit]
// says that it may.
//
// maxTTL is the longest ttl that a client may lock or extend for: more is an error
// before any I/O. Nodes remember the largest maxTTL of a client that has asked them, and
// abstain for that; so it can be raised client by client, and only [Redlock.Admit] lowers
// it. They remember as well for how many nodes they are set up, and grant nothing to a
// client with another number (ErrConfigMismatch). docs/operations.md says how to change
// either. A client without the option is not kept from anything.
//
// It costs the nodes a few microseconds for each lock, and takes the right to INFO. For
// New only. Default: none.
func WithQuarantine(maxTTL time.Duration) Option {
	return func(o *options) { o.quarantine, o.quarantineSet, o.newOnly = maxTTL, true, "WithQuarantine" }
}

// WithHook has h called with everything that happens; see [Event] for what and
// [SlogHook] for a ready one. For New only.
func WithHook(h Hook) Option {
	return func(o *options) { o.hook, o.newOnly = h, "WithHook" }
}

// apply adds opts to o and checks the result.
func (o *options) apply(opts []Option) error {
	for _, opt := range opts {
		if opt == nil {
			return errors.New("redlock: nil Option")
		}
		opt(o)
	}
	return o.validate()
}

func (o *options) validate() error {
	if !o.jitterSet {
		o.retryJitter = min(DefaultRetryJitter, o.retryDelay)
	}
	switch {
	case o.retryCount < -1:
		return fmt.Errorf("redlock: retry count %d: must be -1 (for ever), 0 or more", o.retryCount)
	case o.retryDelay < 0:
		return fmt.Errorf("redlock: retry delay %v: must not be negative", o.retryDelay)
	case o.retryDelay > maxWait:
		return fmt.Errorf("redlock: retry delay %v: must not exceed %v", o.retryDelay, maxWait)
	case o.retryJitter < 0:
		return fmt.Errorf("redlock: retry jitter %v: must not be negative", o.retryJitter)
	case o.retryJitter > o.retryDelay:
		return fmt.Errorf("redlock: retry jitter %v: must not exceed the retry delay %v", o.retryJitter, o.retryDelay)
	case o.backoffSet && o.backoff == nil:
		return errors.New("redlock: WithRetryBackoff: nil function")
	case o.retryIf == nil:
		return errors.New("redlock: WithRetryIf: nil function")
	case math.IsNaN(o.driftFactor) || o.driftFactor < 0 || o.driftFactor >= 1:
		return fmt.Errorf("redlock: drift factor %v: must be at least 0 and below 1", o.driftFactor)
	case o.nodeTimeout <= 0:
		return fmt.Errorf("redlock: node timeout %v: must be positive", o.nodeTimeout)
	case o.nodeTimeout > maxWait:
		return fmt.Errorf("redlock: node timeout %v: must not exceed %v", o.nodeTimeout, maxWait)
	case o.connectTimeout < 0:
		return fmt.Errorf("redlock: connect timeout %v: must not be negative", o.connectTimeout)
	case o.connectTimeout > maxWait:
		return fmt.Errorf("redlock: connect timeout %v: must not exceed %v", o.connectTimeout, maxWait)
	case o.minHold < 0:
		return fmt.Errorf("redlock: min hold %v: must not be negative", o.minHold)
	case o.maxHold < 0 || o.maxHoldSet && o.maxHold == 0:
		return fmt.Errorf("redlock: max hold %v: must be positive", o.maxHold)
	case o.fenceLife < time.Millisecond:
		return fmt.Errorf("redlock: fence life %v: must be at least 1ms", o.fenceLife)
	case o.quarantineSet && (o.quarantine < time.Millisecond || o.quarantine > maxQuarantine):
		return fmt.Errorf("redlock: quarantine's maxTTL %v: must be at least 1ms and at most %v", o.quarantine, maxQuarantine)
	case strings.Contains(o.prefix, reservedMark):
		return fmt.Errorf("redlock: prefix %q: %q is reserved", o.prefix, reservedMark)
	}
	return checkOwner(o.owner)
}

// checkHold reports whether the min hold is too long for a lock of this ttl.
func (o *options) checkHold(ttl time.Duration) error {
	if o.minHold > ttl {
		return fmt.Errorf("redlock: min hold %v: must not exceed the ttl %v", o.minHold, ttl)
	}
	return nil
}

// checkTTL reports what is wrong with a ttl, before any I/O.
func (o *options) checkTTL(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return fmt.Errorf("redlock: ttl %v: must be at least 1ms", ttl)
	}
	if validity(ttl, o.driftFactor) <= 0 {
		return fmt.Errorf("redlock: ttl %v: nothing is left of it after the drift allowance of %v", ttl, drift(ttl, o.driftFactor))
	}
	if o.quarantine > 0 && ttl > o.quarantine {
		return fmt.Errorf("redlock: ttl %v: must not exceed the quarantine's maxTTL %v", ttl, o.quarantine)
	}
	if o.fencing && ttl > o.fenceLife {
		return fmt.Errorf("redlock: ttl %v: must not exceed the fence life %v", ttl, o.fenceLife)
	}
	return nil
}
