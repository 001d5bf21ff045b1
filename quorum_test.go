package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/clock"
)

// fate is what a round ends as, with the class that its error gets.
type fate string

const (
	undecided fate = "undecided"
	isWon     fate = "won"
	isHeld    fate = "held"
	isUnknown fate = "no quorum"
)

func fateOf(t tally) fate {
	switch v := t.verdict(); {
	case v == won:
		return isWon
	case v == lost && t.blocked():
		return isHeld
	case v == lost:
		return isUnknown
	case v == pending:
		return undecided
	default:
		panic(fmt.Sprintf("verdict %d", v))
	}
}

// ballot is the twin of a tally: the votes themselves, '?' for those not yet cast.
type ballot []byte

// outcomes plays every possible end of the open votes.
func (b ballot) outcomes() map[fate]bool {
	for i, v := range b {
		if v != '?' {
			continue
		}
		all := make(map[fate]bool)
		for _, cast := range []byte("grf") {
			b[i] = cast
			for f := range b.outcomes() {
				all[f] = true
			}
		}
		b[i] = '?'
		return all
	}
	return map[fate]bool{b.final(): true}
}

// final reads a full ballot: won by more than half; held if the failed nodes could not have
// won it even by granting.
func (b ballot) final() fate {
	grants, atBest := 0, 0
	for _, v := range b {
		switch v {
		case 'g':
			grants++
			atBest++
		case 'f':
			atBest++
		}
	}
	switch {
	case 2*grants > len(b):
		return isWon
	case 2*atBest <= len(b):
		return isHeld
	default:
		return isUnknown
	}
}

func (b ballot) fate() fate {
	outcomes := b.outcomes()
	if len(outcomes) > 1 {
		return undecided
	}
	for only := range outcomes {
		return only
	}
	panic("no outcome")
}

func newBallot(t tally) ballot {
	b := make(ballot, 0, t.nodes)
	for _, cast := range []struct {
		vote  byte
		count int
	}{{'g', t.granted}, {'r', t.refused}, {'f', t.failed}} {
		for range cast.count {
			b = append(b, cast.vote)
		}
	}
	for len(b) < t.nodes {
		b = append(b, '?')
	}
	return b
}

func tallies(nodes int, visit func(tally)) {
	for g := range nodes + 1 {
		for r := range nodes - g + 1 {
			for f := range nodes - g - r + 1 {
				visit(tally{nodes: nodes, quorum: majority(nodes), granted: g, refused: r, failed: f})
			}
		}
	}
}

func TestAnyTwoQuorumsShareANodeAndAMinorityMayBeDown(t *testing.T) {
	for nodes, quorum := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 4, 8: 5, 9: 5} {
		require.Equal(t, quorum, majority(nodes), "%d nodes", nodes)
	}
	for nodes := 1; nodes < 100; nodes++ {
		require.Greater(t, 2*majority(nodes), nodes)
		require.LessOrEqual(t, majority(nodes), nodes-(nodes-1)/2)
	}
}

func TestTheVerdictIsThatOfTheTable(t *testing.T) {
	for _, c := range []struct {
		nodes, granted, refused, failed int
		want                            fate
	}{
		{1, 0, 0, 0, undecided},
		{1, 1, 0, 0, isWon},
		{1, 0, 1, 0, isHeld},
		{1, 0, 0, 1, isUnknown},
		{2, 1, 0, 0, undecided},
		{2, 2, 0, 0, isWon},
		{2, 1, 1, 0, isHeld},
		{2, 1, 0, 1, isUnknown},
		{2, 0, 0, 1, undecided}, // lost, but a refusal would say why
		{2, 0, 1, 1, isHeld},
		{3, 2, 0, 0, isWon},
		{3, 2, 1, 0, isWon},
		{3, 1, 1, 0, undecided},
		{3, 0, 2, 0, isHeld},
		{3, 1, 2, 0, isHeld},
		{3, 0, 0, 2, isUnknown},
		{3, 0, 1, 1, undecided},
		{3, 1, 1, 1, isUnknown}, // the failed node might have granted
		{5, 2, 2, 0, undecided},
		{5, 2, 2, 1, isUnknown},
		{5, 2, 3, 0, isHeld},
		{5, 3, 0, 0, isWon},
		{5, 0, 0, 3, isUnknown},
		{5, 0, 1, 2, undecided},
		{5, 0, 2, 2, undecided},
		{5, 1, 2, 2, isUnknown},
		{5, 0, 3, 2, isHeld},
	} {
		got := fateOf(tally{nodes: c.nodes, quorum: majority(c.nodes), granted: c.granted, refused: c.refused, failed: c.failed})
		require.Equal(t, c.want, got, "%+v", c)
	}
}

func TestTheVerdictIsDecidedExactlyWhenNoOpenVoteCanChangeIt(t *testing.T) {
	for nodes := 1; nodes <= 9; nodes++ {
		tallies(nodes, func(votes tally) {
			require.Equal(t, newBallot(votes).fate(), fateOf(votes), "%+v", votes)
		})
	}
}

func TestARoundIsWonExactlyAtTheQuorumsLastGrant(t *testing.T) {
	for nodes := 1; nodes <= 9; nodes++ {
		tallies(nodes, func(votes tally) {
			require.Equal(t, votes.granted >= votes.quorum, votes.verdict() == won, "%+v", votes)
		})
	}
}

func TestNoOrderOfVotesTakesAVerdictBackOrChangesItsClass(t *testing.T) {
	for nodes := 1; nodes <= 9; nodes++ {
		finals := make(map[[3]int]fate) // by how many granted, refused and failed in the end
		var play func(votes tally, decided fate)
		play = func(votes tally, decided fate) {
			now := fateOf(votes)
			if decided != undecided && now != decided {
				t.Fatalf("%+v: %s after it was %s", votes, now, decided)
			}
			if votes.granted+votes.refused+votes.failed == nodes {
				if now == undecided {
					t.Fatalf("%+v: undecided though all have voted", votes)
				}
				key := [3]int{votes.granted, votes.refused, votes.failed}
				if before, seen := finals[key]; seen && before != now {
					t.Fatalf("%+v: %s in one order, %s in another", votes, before, now)
				}
				finals[key] = now
				return
			}
			for _, v := range []vote{granted, refused, failed} {
				next := votes
				next.count(v)
				play(next, now)
			}
		}
		play(tally{nodes: nodes, quorum: majority(nodes)}, undecided)
		require.Len(t, finals, (nodes+1)*(nodes+2)/2)
	}
}

func TestNodesNotHeardAreInNoCount(t *testing.T) {
	votes := tally{nodes: 3, quorum: 2}
	votes.count(unheard)
	require.Equal(t, tally{nodes: 3, quorum: 2}, votes)
}

// deafRound is a round over nodes without workers: it gets the answers that a test gives.
func deafRound(t *testing.T, op *operation, nodes int, settle func(*round) func()) *round {
	t.Helper()
	c := &claim{panel: &panel{clock: clock.Now, life: context.Background(), quorum: majority(nodes), drift: defaultConfig().drift, guard: newGuard(&config{}, nodes, clock.Now()), observer: &observer{}}, ttl: time.Minute, spots: make([]spot, nodes)}
	for i := range nodes {
		c.nodes = append(c.nodes, newNode(fmt.Sprintf("n%d:1", i), nil, time.Second, clock.Now))
	}
	for i := range c.spots {
		c.spots[i].place = present
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prepare(&round{op: op, start: clock.Now(), ttl: time.Second, gate: noGate, settle: settle})
}

var votersAnswers = map[byte]answer{
	'g': {vote: granted, place: present},
	'r': {vote: refused, place: absent, err: errOtherToken},
	'f': {vote: failed, place: maybe, err: errors.New("i/o timeout"), unanswered: true},
}

func TestTheErrorOfARoundHasTheSameClassInEveryOrderOfItsVotes(t *testing.T) {
	const nodes = 5
	var play func(b ballot)
	play = func(b ballot) {
		if len(b) < nodes {
			for _, v := range []byte("grf") {
				play(append(b[:len(b):len(b)], v))
			}
			return
		}
		settled := 0
		r := deafRound(t, acquireOp, nodes, func(*round) func() { settled++; return nothing })
		r.launch()
		for i, v := range b {
			r.answer(i, votersAnswers[v])
		}
		<-r.decided
		require.Equal(t, 1, settled)
		switch b.final() {
		case isWon:
			require.Equal(t, won, r.verdict, "%s", b)
		case isHeld:
			require.Equal(t, lost, r.verdict, "%s", b)
			require.ErrorIs(t, r.failure(nil), ErrHeld, "%s", b)
		default:
			require.Equal(t, lost, r.verdict, "%s", b)
			require.ErrorIs(t, r.failure(nil), ErrNoQuorum, "%s", b)
			require.NotErrorIs(t, r.failure(nil), ErrHeld, "%s", b)
		}
	}
	play(nil)
}

func TestAnswersAfterTheVerdictChangePlacesButNoVotes(t *testing.T) {
	r := deafRound(t, acquireOp, 3, nil)
	r.launch()
	r.answer(0, votersAnswers['r'])
	r.answer(1, votersAnswers['r'])
	require.Equal(t, lost, r.verdict)
	before := r.failure([]string{"orders"})
	require.Equal(t, errUnheard, before.Nodes[2].Err)

	r.answer(2, votersAnswers['g'])
	require.Equal(t, before, r.failure([]string{"orders"}))
	require.Equal(t, tally{nodes: 3, quorum: 2, refused: 2}, r.tally)
	require.Equal(t, 1, r.claim.holders())
}

func TestNoVerdictBeforeAllCallsAreQueued(t *testing.T) {
	settled := false
	r := deafRound(t, acquireOp, 3, func(*round) func() { settled = true; return nothing })
	for i := range 3 {
		r.answer(i, votersAnswers['g'])
	}
	require.Equal(t, pending, r.verdict)
	require.False(t, settled)
	r.launch()
	require.Equal(t, won, r.verdict)
	require.True(t, settled)
}

func TestNodesThatAreSilentAtTheTimeoutHaveFailed(t *testing.T) {
	r := deafRound(t, acquireOp, 3, nil)
	r.launch()
	r.answer(0, votersAnswers['g'])
	r.expire(200 * time.Millisecond)
	<-r.decided
	e := r.failure([]string{"orders"})
	require.ErrorIs(t, e, ErrNoQuorum)
	require.Equal(t, []int{1, 0, 2}, []int{e.Granted, e.Refused, e.Failed})
	require.NoError(t, e.Nodes[0].Err)
	require.EqualError(t, e.Nodes[1].Err, "no answer within 200ms")
	r.expire(time.Second)
	require.Equal(t, e, r.failure([]string{"orders"}))
}

func TestTheEndOfCtxEndsARoundWithoutAVote(t *testing.T) {
	r := deafRound(t, renewOp, 3, nil)
	r.launch()
	r.answer(0, votersAnswers['r'])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.await(ctx, time.Minute)
	e := r.failure([]string{"orders"})
	require.ErrorIs(t, e, context.Canceled)
	require.ErrorIs(t, e, ErrNoQuorum)
	require.NotErrorIs(t, e, ErrLost)
	require.Equal(t, []int{0, 1, 0}, []int{e.Granted, e.Refused, e.Failed})
	require.Equal(t, errUnheard, e.Nodes[1].Err)
}

func TestAReleaseGoesOnlyWhereTheTokenMayBe(t *testing.T) {
	r := deafRound(t, releaseOp, 3, nil)
	c := r.claim
	c.spots[0].place, c.spots[1].place, c.spots[2].place = absent, maybe, present
	r = c.prepare(&round{op: releaseOp, start: clock.Now(), gate: noGate})
	r.launch()
	require.Equal(t, tally{nodes: 3, quorum: 2, refused: 1}, r.tally)
	require.Equal(t, []int{0, 1, 1}, []int{len(c.nodes[0].queue), len(c.nodes[1].queue), len(c.nodes[2].queue)})

	r = c.prepare(&round{op: renewOp, start: clock.Now(), gate: noGate})
	r.launch()
	require.Equal(t, tally{nodes: 3, quorum: 2}, r.tally, "a renewal heals")
	require.Len(t, c.nodes[0].queue, 1)
}
