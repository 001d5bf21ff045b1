package redlock

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	remote "github.com/redlock-go/redlock/internal/node"
)

const (
	clockReadings = 5 // of a node's clock; the fastest counts

	// probeTTL is the life of the key that Check writes: no whole number of seconds, so that a node
	// which counts in seconds gives itself away.
	probeTTL  = 4567 * time.Millisecond
	probeName = "redlock-check:"
)

// checkup asks one node, through its worker like everything else.
type checkup struct {
	node *node
	ctx  context.Context // ends Check
	facts
}

// told is what came of one question.
type told struct {
	reply       any
	err         error // as the node's answer, or why there is none
	unsent      bool  // the node was known to be down
	sent, heard clock.Instant
}

// examine learns all that it can about a node. What is written is taken away in the end, or left to the worker as
// a debt where the node does not answer any more.
func (n *node) examine(ctx context.Context, prefix, owner string) facts {
	c := &checkup{node: n, ctx: ctx, facts: factsOf(nil, nil)}
	c.Node = n.name
	c.Err = c.meet()
	if c.Err == nil {
		c.Err = c.describe()
	}
	if c.Err == nil {
		c.Err = c.readClocks()
	}
	if c.Err == nil {
		c.Err = c.tryKey(prefix+probeName+newToken("")[1:], newToken(owner))
	}
	if id := n.guard.identity(n.index); id.restarted {
		c.restartSeen = max(0, n.clock().Ago(id.started))
	}
	return c.facts
}

// put queues a question, whose outcome comes from hear.
func (c *checkup) put(args ...any) <-chan told {
	answered := make(chan told, 1)
	sent := c.node.clock()
	if !c.node.ask(args, sent, func(reply any, err error) {
		answered <- told{reply: reply, err: err, sent: sent, heard: c.node.clock()}
	}) {
		t := <-answered
		t.unsent = true
		answered <- t
	}
	return answered
}

// hear returns the outcome of a question; its err is not a reply after a node timeout, or when Check ends.
func (c *checkup) hear(answered <-chan told) told {
	timer := time.NewTimer(c.node.timeout)
	defer timer.Stop()
	select {
	case t := <-answered:
		return t
	case <-timer.C:
		return told{err: fmt.Errorf("no answer within %v", c.node.timeout), heard: c.node.clock()}
	case <-c.ctx.Done():
		return told{err: errSlow, heard: c.node.clock()}
	}
}

func (c *checkup) ask(args ...any) told { return c.hear(c.put(args...)) }

// lost returns why there is no answer at all, nil if there is one.
func (t told) lost() error {
	if t.err == nil || isReply(t.err) {
		return nil
	}
	return t.err
}

func (t told) took() time.Duration { return t.heard.Since(t.sent) }

// meet waits for the first contact and has the node answer something. A connection that died unnoticed is not held
// against the node, since its worker makes a new one at once.
func (c *checkup) meet() error {
	timer := time.NewTimer(2 * c.node.timeout)
	defer timer.Stop()
	select {
	case <-c.node.Introduced():
	case <-timer.C:
	case <-c.ctx.Done():
		return errSlow
	}
	t := c.ask("time")
	for tries := 0; t.lost() != nil && (!t.unsent || c.node.Stats().DownFor < c.node.timeout) && t.took() < c.node.timeout/2 && tries < 10; tries++ {
		if !c.sleep(c.node.timeout / 20) {
			return errSlow
		}
		t = c.ask("time")
	}
	if answered(t.err, "NOAUTH", "WRONGPASS") {
		return t.err
	}
	c.readClock(t)
	return t.lost()
}

func (c *checkup) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// describe asks what the node is and how it is set up, and for the rights that no key is needed to try.
func (c *checkup) describe() error {
	asked := []<-chan told{
		c.put("info"), c.put("config", "get", "max*"), c.put("config", "get", "append*"),
		c.put("script", "load", inspectScript.Body), c.put("publish", newToken("redlock"), ""),
	}
	answers := make([]told, len(asked))
	for i, answered := range asked {
		answers[i] = c.hear(answered)
		if err := answers[i].lost(); err != nil {
			return err
		}
	}
	text, _ := answers[0].reply.(string)
	config := make(map[string]string)
	readConfig(config, answers[1].reply)
	readConfig(config, answers[2].reply)
	before := c.NodeReport
	c.facts = factsOf(parseInfo(text), config)
	c.Node, c.RoundTrip, c.ClockOffset, c.ClockError = before.Node, before.RoundTrip, before.ClockOffset, before.ClockError
	c.scriptLoad, c.publish = answers[3].err, answers[4].err
	return nil
}

// readClocks asks for the time of day a few times in turn, fewer on slow nodes.
func (c *checkup) readClocks() error {
	begin := c.node.clock()
	for i := 1; i < clockReadings && c.node.clock().Since(begin) < c.node.timeout; i++ {
		t := c.ask("time")
		if err := t.lost(); err != nil {
			return err
		}
		c.readClock(t)
	}
	return nil
}

// readClock keeps the reading if it is the fastest so far. The node read its clock at some moment
// of the round trip, which is off its middle by half of it at most.
func (c *checkup) readClock(t told) {
	if t.lost() != nil || c.RoundTrip >= 0 && t.took() >= c.RoundTrip {
		return
	}
	c.RoundTrip = t.took()
	if shown, ok := readTime(t.reply); ok {
		c.ClockError = t.took() / 2
		c.ClockOffset = shown - (time.Duration(t.heard.Time().UnixNano()) - c.ClockError)
	}
}

// tryKey does to a key of its own what is done to that of a lock. An error is that of a node which
// does not answer any more.
func (c *checkup) tryKey(key, token string) error {
	gone := false
	defer func() {
		if !gone { // a debt is paid twice, so it does not matter if it overtakes the SET
			c.node.Owe(remote.Debt{Key: key, Token: token, Expires: c.node.clock().Add(probeTTL), Late: true})
		}
	}()
	set := c.put(acquireArgs(key, token, probeTTL)...)
	left := c.put("pttl", key)

	s, p := c.hear(set), c.hear(left)
	if s.lost() != nil {
		gone = s.unsent
		return s.err
	}
	c.set = setOutcome(s)
	gone = s.err != nil || c.set == errOtherToken
	if p.lost() != nil {
		return p.err
	}
	if millis, ok := p.reply.(int64); ok && c.set == nil {
		c.expiry = expiry{known: true, millis: millis, within: p.heard.Since(s.sent)}
	}
	renewal := c.ask(renewArgs([]any{key}, token, probeTTL, false, "", defaultFenceLife)...)
	if renewal.lost() != nil {
		return renewal.err
	}
	c.renewal = renewOutcome(renewal)
	release := c.ask(releaseAllArgs([]any{key}, token)...)
	if release.lost() != nil {
		return release.err
	}
	if c.release = releaseOutcome(release); c.release == nil || gone {
		gone = true
		return nil
	}
	del := c.ask("del", key)
	gone = del.err == nil
	return del.lost()
}
