package redlock

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

func panelOf(names ...string) *panel {
	p := &panel{clock: clock.Now}
	for _, name := range names {
		p.nodes = append(p.nodes, newNode(name, nil, time.Second, clock.Now))
	}
	return p
}

// Lockers of different versions of this library must agree, so what the gate is may not change.
func TestTheGatesOfSomeKeys(t *testing.T) {
	p := panelOf("10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379")
	gates := make(map[string]int)
	for _, key := range []string{"orders", "lock:jobprocessor", "order:4711", "order:4712", "", "ключ"} {
		gates[key] = p.gate(key, clock.Now())
	}
	require.Equal(t, map[string]int{"orders": 3, "lock:jobprocessor": 0, "order:4711": 1, "order:4712": 3, "": 4, "ключ": 3}, gates)
}

func TestTheGateDependsOnTheAddressAndNotOnTheOrderOfTheNodes(t *testing.T) {
	p, q := panelOf("a:1", "b:1", "c:1", "d:1", "e:1"), panelOf("E:1", "c:01", "a:1", "b.:1", "d:1")
	counts := make(map[string]int)
	for i := range 5000 {
		key := fmt.Sprint("key", i)
		name := p.nodes[p.gate(key, clock.Now())].name
		require.Equal(t, name, canonical(q.nodes[q.gate(key, clock.Now())].name))
		counts[name]++
	}
	for name, n := range counts {
		require.InDelta(t, 1000, n, 150, name)
	}
}

func TestANodeThatIsDownMovesNoGatesButItsOwn(t *testing.T) {
	p := panelOf("a:1", "b:1", "c:1", "d:1", "e:1")
	before := make([]int, 1000)
	for i := range before {
		before[i] = p.gate(fmt.Sprint("key", i), clock.Now())
	}
	p.nodes[1].fault = errors.New("down")
	p.nodes[3].busy, p.nodes[3].since = true, clock.Now().Add(-time.Minute) // hung
	for i := range before {
		now := p.gate(fmt.Sprint("key", i), clock.Now())
		if before[i] == 1 || before[i] == 3 {
			require.NotContains(t, []int{1, 3}, now)
		} else {
			require.Equal(t, before[i], now)
		}
	}
	for _, n := range p.nodes {
		n.fault = errors.New("down")
	}
	require.NotPanics(t, func() { p.gate("key", clock.Now()) })
}

func TestTheListSharesTheSlotOfItsKey(t *testing.T) {
	for key, list := range map[string]string{
		"orders": "{orders}:redlock-waiters", "{orders}:4711": "{orders}:4711:redlock-waiters", "a{b}c": "a{b}c:redlock-waiters",
		"{}orders": "{{}orders}:redlock-waiters", "or{ders": "{or{ders}:redlock-waiters", "or}d{ers": "{or}d{ers}:redlock-waiters", "a{}{b}": "{a{}{b}}:redlock-waiters",
	} {
		require.Equal(t, list, listName(key))
	}
}

// slotPart is what Redis hashes of a key, by its cluster specification.
func slotPart(key string) string {
	for i := range key {
		if key[i] != '{' {
			continue
		}
		for j := i + 1; j < len(key); j++ {
			if key[j] == '}' {
				if j > i+1 {
					return key[i+1 : j]
				}
				return key
			}
		}
		return key
	}
	return key
}

func TestTheListOfAnyKeyWithoutBracesInsideSharesItsSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[ab:]{1,8}(\{[ab]{1,3}\})?[ab{]{0,3}`).Draw(t, "key")
		require.Equal(t, slotPart(key), slotPart(listName(key)))
	})
}

func TestWhatTheGateSaysIsReadStrictly(t *testing.T) {
	refusal := answer{vote: refused, err: errOtherToken}
	timed := func(left time.Duration, blocked int, since int64, holder string) answer {
		a := refusal
		a.left, a.timed, a.blocked, a.since, a.holder = max(0, left), left >= 0, blocked, since, holder
		return a
	}
	for _, c := range []struct {
		reply any
		want  answer
		ok    bool
	}{
		{[]any{int64(1), int64(0), "17"}, answer{vote: granted, place: present, since: 17}, true},
		{[]any{int64(1), int64(1764440000000001), ""}, answer{vote: granted, place: present, fence: 1764440000000001}, true},
		{[]any{int64(0), int64(1), int64(1500), "17"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(1500), "17", int64(5)}, answer{}, false},
		{[]any{int64(0), int64(1), int64(1500), "17", nil}, answer{}, false},
		{[]any{int64(0), int64(1), int64(1500), "17", "me/x", "me/y"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(1500), "1764440000000000", "me/x"}, timed(1500*time.Millisecond, 0, 1764440000000000, "me/x"), true},
		{[]any{int64(0), int64(3), int64(-1), "0", "me/x"}, timed(-time.Millisecond, 2, 0, "me/x"), true},
		{[]any{int64(0), int64(5), int64(-2), "", "me/x"}, timed(-1, 4, 0, "me/x"), true},
		{[]any{int64(0), int64(1), int64(math.MaxInt64), "", "me/x"}, timed(millis(math.MaxInt64), 0, 0, "me/x"), true},
		{[]any{int64(1), int64(1<<53 - 1), ""}, answer{vote: granted, place: present, fence: 1<<53 - 1}, true},
		{[]any{int64(1), int64(1 << 53), ""}, answer{}, false},
		{[]any{int64(0), int64(6), int64(5), "17", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(math.MaxInt64), int64(5), "17", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(math.MinInt64), int64(5), "17", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(-3), "17", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(0), "nonsense", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(0), "-1", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(0), "+17", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(0), "017", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(0), "9223372036854775808", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), int64(0), nil, "me/x"}, answer{}, false},
		{[]any{int64(1), int64(5), nil}, answer{}, false},
		{[]any{int64(0), int64(0), int64(5), "17", "me/x"}, answer{}, false},
		{[]any{int64(0), int64(1), "17"}, answer{}, false},
		{[]any{int64(1), int64(-5), "17"}, answer{}, false},
		{[]any{int64(1), int64(5), int64(5)}, answer{}, false},
		{[]any{int64(1), int64(1), int64(5), "17"}, answer{}, false},
		{[]any{int64(2), int64(5), "17"}, answer{}, false},
		{[]any{}, answer{}, false},
		{"OK", answer{}, false},
		{nil, answer{}, false},
	} {
		got, ok := acquireAllOp.read(c.reply, 5)
		require.Equal(t, c.ok, ok, "%v", c.reply)
		require.Equal(t, c.want, got, "%v", c.reply)
	}
}

func TestAReleaseTellsWhetherItWokeSomebody(t *testing.T) {
	for code, want := range map[int64]answer{
		1: {vote: granted}, 2: {vote: refused, err: errMissing}, 0: {vote: refused, err: errOtherToken},
		5: {vote: granted, woke: true}, 6: {vote: refused, err: errMissing, woke: true},
	} {
		got, ok := releaseOp.read(code, 1)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, reply := range []any{int64(3), int64(4), int64(7), int64(-1), "1", nil} {
		_, ok := releaseOp.read(reply, 1)
		require.False(t, ok, "%v", reply)
	}
}

func TestReleasesThatConcernAListComeLastAndNameIt(t *testing.T) {
	n := newNode("a:1", nil, time.Second, clock.Now)
	at := func(gate int32, key, token, channel string) *call {
		return &call{round: &round{op: releaseOp, gate: gate, parting: &parting{channel: channel}, claim: &claim{keys: []any{key}, token: token}}}
	}
	n.batch = []*call{
		at(0, "a", "me/1", ""), at(noGate, "b", "me/2", ""), {debt: leaving("c", "redlock/me")}, at(0, "{d}", "me/4", "redlock/me"),
		{debt: &debt{key: "e", token: "me/5"}}, {debt: &debt{key: "f", token: "me/6", listed: true}},
	}
	n.plan()
	require.Len(t, n.commands, 1)
	require.Equal(t, []any{
		"evalsha", releaseScript.sha, 6, "b", "e", "a", "c", "{d}", "f",
		"me/2", "me/5", "me/1", "redlock/me", "me/4", "me/6",
		"{a}:redlock-waiters", "{c}:redlock-waiters", "{d}:redlock-waiters", "{f}:redlock-waiters", "", "redlock/me", "redlock/me", "",
	}, n.commands[0].args)
}

func TestTheDelayAfterALostAttemptFollowsItsReason(t *testing.T) {
	const base, limit = 50 * time.Millisecond, 500 * time.Millisecond
	refusedAt := func(left time.Duration, timed bool, since int64) *QuorumError {
		return &QuorumError{class: ErrHeld, entry: &entry{answered: true, answer: answer{vote: refused, left: left, timed: timed, since: since}}}
	}
	elsewhere := &QuorumError{class: ErrHeld, Elapsed: time.Millisecond, entry: &entry{answered: true, answer: answer{vote: granted}}}
	outage := &QuorumError{class: ErrNoQuorum}
	almost := math.Nextafter(1, 0)
	near := func(want, got time.Duration) { t.Helper(); require.InDelta(t, want, got, 2) }

	var r retries
	next := func(f *QuorumError, hears bool, base, limit time.Duration, random float64) time.Duration {
		return r.next(f, false, hears, base, limit, random)
	}
	require.Zero(t, next(&QuorumError{class: ErrHeld}, false, base, limit, almost), "from a first attempt on to the gate")
	near(limit, next(refusedAt(0, false, 17), true, base, limit, almost))
	near(limit, next(refusedAt(time.Minute, true, 17), true, base, limit, almost))
	near(102*time.Millisecond, next(refusedAt(100*time.Millisecond, true, 17), true, base, limit, almost))
	near(expiryGrain, next(refusedAt(0, true, 17), true, base, limit, almost))

	r = retries{}
	for _, want := range []time.Duration{base, 2 * base, 4 * base, 8 * base, limit, limit} { // nobody would wake it
		near(want, next(refusedAt(time.Minute, true, 17), false, base, limit, almost))
	}
	near(limit, next(refusedAt(time.Minute, true, 0), true, base, limit, almost))
	near(time.Millisecond, next(elsewhere, true, base, limit, almost))
	near(2*time.Millisecond, next(elsewhere, true, base, limit, almost))
	near(base, next(outage, true, base, limit, almost))
	near(2*base, next(outage, true, base, limit, almost))
	near(time.Millisecond, next(elsewhere, true, base, limit, almost))
	near(base, next(refusedAt(time.Minute, true, 17), false, base, limit, almost))
	for range 70 {
		require.LessOrEqual(t, next(elsewhere, true, base, limit, almost), limit)
	}
	near(limit, next(elsewhere, true, base, limit, almost))

	r = retries{}
	unseen := *elsewhere
	unseen.Elapsed = 0 // by a clock that stood still meanwhile
	near(time.Millisecond, next(&unseen, true, base, limit, almost))
	near(2*time.Millisecond, next(&unseen, true, base, limit, almost))
}

func TestAnAttemptThroughTheGateAsksTheOthersOnlyIfItIsNotRefusedThere(t *testing.T) {
	for name, c := range map[string]struct {
		gate  answer
		asked bool
		class error
	}{
		"granted":  {answer{vote: granted, place: present}, true, nil},
		"withheld": {answer{vote: failed, place: present, err: errors.New("restarted")}, true, nil},
		"failed":   {answer{vote: failed, place: maybe, err: errors.New("i/o timeout"), unanswered: true}, true, nil},
		"not sent": {unsent(errors.New("down")), true, nil},
		"refused":  {answer{vote: refused, err: errOtherToken}, false, ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			r := deafRound(t, acquireOp, 3, nil)
			r.gate, r.entry = 1, &entry{args: []any{"evalsha"}}
			r.launch()
			require.Equal(t, []int{0, 1, 0}, []int{len(r.claim.nodes[0].queue), len(r.claim.nodes[1].queue), len(r.claim.nodes[2].queue)})
			require.Equal(t, acquireAllOp, r.claim.nodes[1].queue[0].op())
			r.answer(1, c.gate)
			if !c.asked {
				<-r.decided
				require.Equal(t, lost, r.verdict)
				require.ErrorIs(t, r.failure(nil), c.class)
				require.Equal(t, []int{0, 0}, []int{len(r.claim.nodes[0].queue), len(r.claim.nodes[2].queue)})
				return
			}
			require.Equal(t, pending, r.verdict)
			require.Equal(t, []int{1, 1, 1}, []int{len(r.claim.nodes[0].queue), len(r.claim.nodes[1].queue), len(r.claim.nodes[2].queue)})
			require.Equal(t, acquireOp, r.claim.nodes[0].queue[0].op())
			require.Positive(t, r.entry.extension(time.Second, clock.Now()))
			r.answer(0, answer{vote: granted, place: present})
			r.answer(2, answer{vote: granted, place: present})
			require.Equal(t, won, r.verdict)
		})
	}
}

func TestAGateThatDoesNotAnswerEndsTheAttemptAtTheTimeout(t *testing.T) {
	r := deafRound(t, acquireOp, 3, nil)
	r.gate, r.entry = 1, &entry{args: []any{"evalsha"}}
	r.launch()
	require.Zero(t, r.expire(time.Second))
	require.Equal(t, lost, r.verdict)
	e := r.failure([]string{"orders"})
	require.ErrorIs(t, e, ErrNoQuorum)
	require.EqualError(t, e, `redlock: acquire "orders": no quorum: 0 of 2 needed (failed: n1:1: no answer within 1s)`)
	r.answer(1, answer{vote: granted, place: present}) // too late
	require.Empty(t, r.claim.nodes[0].queue)
	require.Equal(t, lost, r.verdict)
}

func TestALostReplyOfTheGateIsReadAsNoVote(t *testing.T) {
	c := answeredCall(acquireAllOp, nil, redis.Nil)
	require.Equal(t, failed, c.outcome(0, nil).vote, "the script never answers nil")
}
