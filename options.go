package redlock

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode"
)

// Option sets up a Locker. Options are checked when the Locker is made.
type Option func(*config)

// config holds the settings of a Locker; defaultConfig holds all defaults.
type config struct {
	drift          drift
	nodeTimeout    time.Duration
	nodeTimeoutSet bool // an explicit one must be below the ttl; the default gives way to it
	backoffBase    time.Duration
	backoffMax     time.Duration
	wait           time.Duration
	prefix         string
	owner          string
	fencing        bool
	fenceLife      time.Duration
	fenceLifeSet   bool
	guard          GuardMode
	maxTTL         time.Duration // 0 without WithMaxTTL
	maxTTLSet      bool
	trace          Trace
	logger         *slog.Logger
	nilArgument    string // the option that was given a nil pointer
}

func defaultConfig() config {
	return config{
		drift:       drift{factor: 0.01, constant: 2 * time.Millisecond, step: clockStep},
		nodeTimeout: 200 * time.Millisecond,
		backoffBase: 50 * time.Millisecond,
		backoffMax:  500 * time.Millisecond,
		wait:        750 * time.Millisecond,
		owner:       defaultOwner(),
		fenceLife:   defaultFenceLife,
	}
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// WithDrift sets the drift allowance, factor × ttl + constant, that is taken off every
// validity. Only larger allowances than the default (0.01, 2 ms) are accepted; factor must
// be below 1. On Windows, whose clock moves in steps, another 1/64 s is taken off.
func WithDrift(factor float64, constant time.Duration) Option {
	return func(c *config) { c.drift.factor, c.drift.constant = factor, constant }
}

// WithNodeTimeout sets how long a round waits for the nodes (default 200 ms, at least
// 1 ms). A round never waits longer than a quarter of its ttl; a call whose ttl is not above
// a node timeout set here is refused.
func WithNodeTimeout(d time.Duration) Option {
	return func(c *config) { c.nodeTimeout, c.nodeTimeoutSet = d, true }
}

// WithBackoff sets the delays between the attempts of Acquire, and between the retries of
// a failed automatic renewal: full jitter, that is a random part of base × 2ⁿ but of no more
// than max (defaults 50 ms and 500 ms; 1 ms ≤ base ≤ max).
func WithBackoff(base, max time.Duration) Option {
	return func(c *config) { c.backoffBase, c.backoffMax = base, max }
}

// WithWait sets how long Acquire waits where its ctx has no deadline (default 750 ms; 0
// means no limit).
func WithWait(d time.Duration) Option { return func(c *config) { c.wait = d } }

// WithKeyPrefix puts s before every key that is stored on the nodes (default none). Errors
// and Lock.Key show the key without it.
func WithKeyPrefix(s string) Option { return func(c *config) { c.prefix = s } }

// WithOwner names this process in the tokens (default host:pid), for people who look at
// the nodes. It proves nothing and need not be unique. Spaces and control characters are
// refused.
func WithOwner(s string) Option { return func(c *config) { c.owner = s } }

// WithFencing gives every lock a number, Lock.Fence, that grows from grant to grant of a key: a guarded resource
// that remembers the largest it has seen can refuse a holder whose lock is over. All lockers of a key must
// use it. An acquire takes one round trip as without it where the nodes' numbers agree, and two where not.
//
// Fences cost memory: each node keeps one more key of about 130 bytes for each key of a lock, for WithFenceLife after
// the last grant or renewal. At 2^53, a time of day in the year 2255, an acquire fails and says what to do.
func WithFencing() Option { return func(c *config) { c.fencing = true } }

// WithFenceLife sets how long the nodes remember the number of a key after its last grant or renewal. The default is
// 7 days. d is 1 s to 366 days, and is refused without WithFencing.
//
// After d the next number is the time of day of the client that gets the lock. So d is by how much the clocks of nodes
// and clients may differ after such a time without grants. If they differ by more, numbers may fall. A number that is
// ahead of a node's clock lives longer by that lead, and never less than the TTL of the lock. Use the same d in all
// lockers of a key. A smaller d saves memory on the nodes.
func WithFenceLife(d time.Duration) Option {
	return func(c *config) { c.fenceLife, c.fenceLifeSet = d, true }
}

// WithRestartGuard sets whether nodes that may have lost keys in a restart may vote on acquires
// (default GuardAuto). Such a vote is withheld: it counts as a failure, and the error names it.
// It is withheld for as long as somebody may still hold a key that was lost: the TTL asked for,
// or WithMaxTTL if that is longer, and twice the drift allowance of it. The guard knows a node by
// its run_id, from INFO, which is asked on every new connection. Where the connections of a client
// given to New cannot be counted (see New), it is asked after every batch with an acquire. A node that
// never tells a run_id is never withheld; one that told it before does not vote until it tells it
// again. No other option makes a lock less safe than GuardOff does.
func WithRestartGuard(mode GuardMode) Option { return func(c *config) { c.guard = mode } }

// WithMaxTTL names the longest ttl that any locker uses on these nodes, for the restart guard.
// It is needed where lockers of one key use different ttls; a longer ttl is then refused.
func WithMaxTTL(d time.Duration) Option { return func(c *config) { c.maxTTL, c.maxTTLSet = d, true } }

// WithTrace sets functions to call as things happen (default none). The Trace is copied.
func WithTrace(t *Trace) Option {
	return func(c *config) {
		if t == nil {
			c.nilArgument = "WithTrace"
			return
		}
		c.trace = *t
	}
}

// WithLogger logs changes of the nodes' state and losses of locks, no more (default: nothing).
func WithLogger(log *slog.Logger) Option {
	return func(c *config) {
		if log == nil {
			c.nilArgument = "WithLogger"
		}
		c.logger = log
	}
}

func newConfig(opts []Option) (config, error) {
	c := defaultConfig()
	for i, opt := range opts {
		if opt == nil {
			return c, fmt.Errorf("redlock: opts[%d]: the option is nil", i)
		}
		opt(&c)
	}
	return c, c.check()
}

// check refuses settings that are out of range or contradict each other. The comparisons
// of factor are negated so that they refuse NaN too.
func (c *config) check() error {
	least := defaultConfig().drift
	switch {
	case c.nilArgument != "":
		return fmt.Errorf("redlock: %s: nil; leave the option out", c.nilArgument)
	case !(c.drift.factor >= least.factor && c.drift.factor < 1):
		return fmt.Errorf("redlock: WithDrift: factor %v is outside %v ≤ factor < 1", c.drift.factor, least.factor)
	case c.drift.constant < least.constant || c.drift.constant > maxTTL:
		return fmt.Errorf("redlock: WithDrift: constant %v is outside %v … %v", c.drift.constant, least.constant, maxTTL)
	case c.nodeTimeout < time.Millisecond || c.nodeTimeout > maxTTL:
		return fmt.Errorf("redlock: WithNodeTimeout: %v is outside 1ms … %v", c.nodeTimeout, maxTTL)
	case c.backoffBase < time.Millisecond:
		return fmt.Errorf("redlock: WithBackoff: base %v is below 1ms", c.backoffBase)
	case c.backoffMax < c.backoffBase || c.backoffMax > maxTTL:
		return fmt.Errorf("redlock: WithBackoff: max %v is outside base (%v) … %v", c.backoffMax, c.backoffBase, maxTTL)
	case c.guard > GuardOff:
		return fmt.Errorf("redlock: WithRestartGuard: %d is none of GuardAuto, GuardStrict and GuardOff", c.guard)
	case c.maxTTLSet && (c.maxTTL < minTTL || c.maxTTL > maxTTL):
		return fmt.Errorf("redlock: WithMaxTTL: %v is outside %v … %v", c.maxTTL, minTTL, maxTTL)
	case c.fenceLifeSet && !c.fencing:
		return fmt.Errorf("redlock: WithFenceLife: %v does nothing without WithFencing", c.fenceLife)
	case c.fenceLife < time.Second || c.fenceLife > maxTTL:
		return fmt.Errorf("redlock: WithFenceLife: %v is outside 1s … %v", c.fenceLife, maxTTL)
	case c.wait < 0 || c.wait > maxTTL:
		return fmt.Errorf("redlock: WithWait: %v is outside 0 (no limit) … %v", c.wait, maxTTL)
	}
	return checkOwner("WithOwner", c.owner)
}

func checkOwner(option, owner string) error {
	if owner == "" || strings.ContainsFunc(owner, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("redlock: %s: %q must be non-empty, without spaces and control characters", option, owner)
	}
	return nil
}

// AcquireOption sets up one call of TryAcquire, Acquire or Do.
type AcquireOption func(*acquireConfig)

type acquireConfig struct {
	wait      time.Duration
	waitSet   bool
	owner     string
	ownerSet  bool
	autoRenew bool
	maxHold   time.Duration
	holdSet   bool
}

// Wait bounds how long this call of Acquire or Do waits, whether or not its ctx has a
// deadline: the earlier of the two ends the waiting. 0 means no limit but ctx's. TryAcquire
// never waits and refuses it.
func Wait(d time.Duration) AcquireOption {
	return func(c *acquireConfig) { c.wait, c.waitSet = d, true }
}

// Owner overrides WithOwner for this lock.
func Owner(s string) AcquireOption { return func(c *acquireConfig) { c.owner, c.ownerSet = s, true } }

// AutoRenew renews the lock in the background until it is released or lost, or MaxHold ends. A
// renewal is due between 0.4 and 0.5 of the ttl after the last one, at random, so that locks acquired
// together are not all renewed together. If more are due than the nodes answer, the lock that ends
// first goes first. A renewal that fails for outages is repeated with jitter until the lock's
// validity ends; a quorum that no longer holds the token ends the lock at once.
func AutoRenew() AcquireOption { return func(c *acquireConfig) { c.autoRenew = true } }

// MaxHold ends the lock, as lost, d after its acquire began, however often it is renewed: a
// stuck worker must not keep it for ever. d must be at least the ttl.
func MaxHold(d time.Duration) AcquireOption {
	return func(c *acquireConfig) { c.maxHold, c.holdSet = d, true }
}

func (c *config) forAcquire(ttl time.Duration, opts []AcquireOption) (acquireConfig, error) {
	if len(opts) == 0 { // nothing to check, and nothing that must be on the heap
		return acquireConfig{owner: c.owner}, nil
	}
	a := acquireConfig{owner: c.owner}
	for i, opt := range opts {
		if opt == nil {
			return a, fmt.Errorf("redlock: opts[%d]: the option is nil", i)
		}
		opt(&a)
	}
	switch {
	case a.waitSet && (a.wait < 0 || a.wait > maxTTL):
		return a, fmt.Errorf("redlock: Wait: %v is outside 0 (no limit) … %v", a.wait, maxTTL)
	case a.holdSet && (a.maxHold < ttl || a.maxHold > maxTTL):
		return a, fmt.Errorf("redlock: MaxHold: %v is outside ttl (%v) … %v", a.maxHold, ttl, maxTTL)
	}
	return a, checkOwner("Owner", a.owner)
}

// checkTTL refuses a ttl that cannot be held under these settings, and rounds it down to
// whole milliseconds.
func (c *config) checkTTL(ttl time.Duration) (time.Duration, error) {
	if ttl < minTTL || ttl > maxTTL {
		return 0, fmt.Errorf("redlock: ttl %v is outside %v … %v", ttl, minTTL, maxTTL)
	}
	if c.maxTTLSet && ttl > c.maxTTL {
		return 0, fmt.Errorf("redlock: ttl %v is above the %v of WithMaxTTL", ttl, c.maxTTL)
	}
	ttl = wholeMillis(ttl)
	if c.nodeTimeoutSet && c.nodeTimeout >= ttl {
		return 0, fmt.Errorf("redlock: ttl %v must be above the node timeout of %v", ttl, c.nodeTimeout)
	}
	if allowance := c.drift.allowance(ttl); allowance >= ttl {
		return 0, fmt.Errorf("redlock: ttl %v must be above the drift allowance of %v", ttl, allowance)
	}
	return ttl, nil
}
