package sim

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

const (
	maxNodes   = 5
	maxLockers = 5

	// maxRate is how much a node's clock may run faster or slower than any locker's, in
	// parts per million: the drift allowance of 1 % of the ttl covers 1/0.99.
	maxRate = 10_000

	// maxLag is how much a locker's clock may then be slower than another's: 1 − 0.99/1.01.
	maxLag = 19_800
)

// Settings are what one run is told beside its seed.
type Settings struct {
	Amnesia bool // nodes may also restart without their data
	Guard   bool // lockers use the restart guard
}

// plan is what a seed stands for, but for what its parts draw on the way.
type plan struct {
	seed        uint64
	nodes       int
	lockers     int
	actors      int // per locker
	keys        int
	operations  int     // per actor
	renewals    int     // at most, by hand, while a lock is held
	overstay    float64 // the chance of a holder to release only after its validity
	stay        float64 // … and to stay for long, with renewals
	accidents   float64 // the chance that a process dies or closes its Locker while it waits
	speller     int     // the locker that has other names for the nodes, so other gates; nobody: -1
	ttl         time.Duration
	longTTL     time.Duration // of some locks, far above every bound; 0 for none
	nodeTimeout time.Duration // 0 for the default
	lazy        int           // the clients' own timeouts, in node timeouts, where they ignore a ctx; 0: they are tuned
	backoffBase time.Duration // with backoffMax; 0 for the defaults
	backoffMax  time.Duration
	rates       []int // of the nodes' clocks, in ppm
	lags        []int // of the lockers', 0 or below: timers run by true time, so no clock is faster
	young       bool  // the nodes have only just been started
	strict      bool  // GuardStrict instead of GuardAuto
	modern      bool  // the nodes tell server_time_usec, as from Redis 7 on
	delay       time.Duration
	delaySpread time.Duration
	jitter      time.Duration
	odds        odds
	calm        time.Duration // mean time between faults; 0: there are none

	uncounted []counting // of the lockers' clients
	service   bool       // the nodes are restarted in turn before the actors begin

	pairs     float64         // the chance of an acquire to be for two keys
	handsOn   float64         // the chance of a lock to be resumed by another locker
	fenced    bool            // all lockers use fences
	skews     []time.Duration // then: how much the lockers' times of day are ahead, up to a second
	unguarded bool            // then: GuardOff, so locks may overlap, and …
	forgetful int             // … so many nodes may lose their data in a restart
	patchy    bool            // each locker is cut off from a minority of the nodes
	ageing    ageing          // numbers come to the end of their lives
}

// stream returns random numbers that depend on the seed and the name alone: what one part
// of a run draws does not change what another gets.
func stream(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between draws from [low, high), every order of magnitude as likely as another.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), rng.Float64()))
}

func choose[T any](rng *rand.Rand, options ...T) T { return options[rng.IntN(len(options))] }

func chance(rng *rand.Rand, p float64) bool { return rng.Float64() < p }

func newPlan(seed uint64) plan {
	rng := stream(seed, "plan")
	p := plan{
		seed:    seed,
		nodes:   choose(rng, 3, 3, 3, 3, 3, 3, 5, 5, 1),
		lockers: 2 + rng.IntN(maxLockers-1),
		actors:  choose(rng, 1, 1, 2),
		keys:    choose(rng, 1, 1, 1, 2, 3),
		ttl:     between(rng, 120*time.Millisecond, 12*time.Second),
		young:   chance(rng, 0.3),
		speller: -1,
		delay:   between(rng, 20*time.Microsecond, 2*time.Millisecond),
		jitter:  between(rng, 20*time.Microsecond, time.Millisecond),
	}
	p.operations = max(2, 30/(p.lockers*p.actors))
	p.renewals, p.overstay = choose(rng, 2, 4), 0.25
	if chance(rng, 0.3) {
		p.longTTL = between(rng, 40*time.Second, 2*time.Minute)
	}
	if chance(rng, 0.4) {
		p.nodeTimeout = between(rng, 30*time.Millisecond, 400*time.Millisecond).Truncate(time.Millisecond)
		p.ttl = max(p.ttl, 3*p.nodeTimeout)
	}
	p.delaySpread = between(rng, 100*time.Microsecond, p.timeout()/8)
	if chance(rng, 0.2) {
		p.lazy = 2 + rng.IntN(6)
	}
	if p.ttl > time.Second || chance(rng, 0.5) { // waiting must not be all that a run does
		p.backoffBase, p.backoffMax = p.ttl/20, p.ttl/3
	}
	for range p.nodes {
		p.rates = append(p.rates, choose(rng, 0, maxRate, -maxRate, maxRate, rng.IntN(2*maxRate)-maxRate))
	}
	if chance(rng, 0.5) {
		p.odds = odds{
			lose: choose(rng, 0, 0.01, 0.05), cut: choose(rng, 0, 0.01, 0.05), straggle: choose(rng, 0, 0, 0.01, 0.03, 0.15),
			longest: 3 * p.ttl,
		}
	}
	if chance(rng, 0.85) {
		p.calm = between(rng, p.ttl/4, 8*p.ttl)
	}
	switch x := rng.Float64(); {
	case x < 0.15:
		p.brood(rng)
	case x < 0.4:
		p.crowd(rng)
	}
	if chance(rng, 0.25) {
		p.speller = rng.IntN(p.lockers)
	}
	p.strict = !p.young && chance(rng, 0.5) // a young one would grant nothing for most of a run
	p.number(stream(seed, "fences"))
	p.pair(stream(seed, "pairs"))
	p.handsOn = choose(stream(seed, "resume"), 0, 0, 0.2, 0.6)
	p.modern = chance(stream(seed, "version"), 0.7)
	p.drift(stream(seed, "drift"))
	p.hide(stream(seed, "clients"))
	p.maintain(stream(seed, "service"))
	return p
}

// hide makes it a run in which clients do not let their connections be counted, perhaps. Names of nodes depend
// on the kind of client, and gates on names: so wrappers are for all.
func (p *plan) hide(rng *rand.Rand) {
	kind := choose(rng, counted, counted, cloned, cloned, wrapped)
	for range p.lockers {
		p.uncounted = append(p.uncounted, kind)
		if kind != wrapped {
			p.uncounted[len(p.uncounted)-1] = choose(rng, counted, kind)
		}
	}
}

// maintain makes it a run that begins with rolling maintenance, perhaps (service.go), during the life of one lock.
func (p *plan) maintain(rng *rand.Rand) {
	if p.unguarded || p.nodes == 1 && !p.strict || !chance(rng, 0.15) {
		return
	}
	p.service, p.longTTL = true, between(rng, 5*time.Second, 2*time.Minute)
	if !p.strict {
		p.longTTL = max(p.longTTL, time.Duration(p.nodes)*p.gap()*5/4)
	}
	p.longTTL = max(p.longTTL, 2*p.ttl)
}

// drift gives the lockers' clocks rates, and moves the nodes' to where they differ from each of these by no more
// than maxRate.
func (p *plan) drift(rng *rand.Rand) {
	lag := choose(rng, 0, maxLag, 1+rng.IntN(maxLag))
	for range p.lockers {
		p.lags = append(p.lags, -choose(rng, 0, lag, rng.IntN(1+lag)))
	}
	slowest, fastest := -maxRate, int(int64(1_000_000-lag)*(1_000_000+maxRate)/1_000_000-1_000_000)
	if lag == 0 {
		return
	}
	for i, rate := range p.rates {
		p.rates[i] = slowest + (rate+maxRate)*(fastest-slowest)/(2*maxRate)
	}
}

// number makes it a run with fences, perhaps. Without the guard the lock itself can break, so that
// there is more for fences to do; their numbers are kept while a minority forgets.
func (p *plan) number(rng *rand.Rand) {
	if p.fenced = chance(rng, 0.4); !p.fenced {
		return
	}
	for range p.lockers {
		p.skews = append(p.skews, choose[time.Duration](rng, 0, 1, 1)*time.Duration(rng.Int64N(int64(time.Second))))
	}
	if p.unguarded = chance(rng, 0.5); p.unguarded {
		p.strict, p.forgetful = false, choose(rng, (p.nodes-1)/2, p.nodes)
	}
	if chance(rng, 0.6) {
		p.patch(rng)
	}
	if chance(rng, 0.3) {
		life := between(rng, 4*time.Hour, 24*time.Hour)
		lead := time.Duration(rng.Int64N(int64(3 * life)))
		p.ageing = ageing{life, lead, life/2 + time.Duration(rng.Int64N(int64(life/2+max(life/2, lead))))}
	}
}

// patch cuts each locker off from a minority of its own, so that grants come from bare quorums which differ,
// and so soon after each other that the clocks do not make up for it.
func (p *plan) patch(rng *rand.Rand) {
	p.patchy, p.young, p.keys, p.actors, p.longTTL = true, false, 1, 1, 0
	p.operations, p.renewals, p.overstay, p.stay = 100/p.lockers, 2, 0.1, 0
	p.ttl = max(between(rng, 120*time.Millisecond, 600*time.Millisecond), 3*p.nodeTimeout)
	p.backoffBase, p.backoffMax, p.calm = p.ttl/20, p.ttl/3, 4*p.ttl
}

// pair makes it a run in which some ask for two keys, perhaps.
func (p *plan) pair(rng *rand.Rand) {
	if chance(rng, 0.3) {
		p.pairs, p.keys = choose(rng, 0.2, 0.6), max(2, p.keys)
	}
}

// brood makes it a run in which little goes wrong but that messages come late, and everybody
// renews and overstays: a late renewal then has the time to do harm.
func (p *plan) brood(rng *rand.Rand) {
	p.nodes, p.keys, p.renewals, p.overstay, p.calm = choose(rng, 1, 1, 3), 1, 3, 0.7, 20*p.ttl
	p.rates = p.rates[:1]
	for len(p.rates) < p.nodes {
		p.rates = append(p.rates, maxRate)
	}
	p.odds = odds{lose: 0.02, cut: 0.02, straggle: choose(rng, 0.05, 0.2), longest: between(rng, p.timeout(), 2*p.ttl+p.timeout())}
}

// crowd makes it a run in which many wait for one key, in several places of one locker too, while
// others hold it for long, die or close in the middle, and wake-ups do not arrive.
func (p *plan) crowd(rng *rand.Rand) {
	p.keys, p.actors = 1, 2+rng.IntN(3)
	p.operations = max(2, 30/(p.lockers*p.actors))
	p.stay, p.accidents = choose(rng, 0, 0.2), choose(rng, 0, 0.05, 0.1)
	p.odds.deafen = choose(rng, 0, 0.02, 0.2)
}
