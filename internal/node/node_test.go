package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

func both(t *testing.T, test func(t *testing.T, b *bench)) {
	t.Run("Open", func(t *testing.T) { inBubble(t, false, test) })
	t.Run("Over", func(t *testing.T) { inBubble(t, true, test) })
}

func TestNoCommandIsSentAgainByTheClient(t *testing.T) {
	require.True(t, newCommand([]any{"ping"}).NoRetry())
}

func TestACallTakesOneRoundTripWhateverElseIsUnderWay(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		b.mu.Lock()
		b.delay = 50 * time.Millisecond
		b.mu.Unlock()
		for i := range 20 {
			begin := time.Now()
			o := b.submit(Acquire, "set", fmt.Sprint("k", i))
			time.Sleep(5 * time.Millisecond)
			require.Empty(t, o.all())
			go func() {
				for len(o.all()) == 0 {
					time.Sleep(time.Millisecond)
				}
				require.Less(t, time.Since(begin), 60*time.Millisecond)
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, b.dialled())
		require.Len(t, b.commands(), 20)
	})
}

func TestACallWhoseConnectionBreaksIsSentOnceMore(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		time.Sleep(3 * time.Second)
		cuts := 0
		b.set(func(args []string) []byte {
			if args[0] == "set" && cuts == 0 {
				cuts++
				go b.cut()
				return []byte{}
			}
			return nil
		})
		o := b.submit(Acquire, "set", "k")
		time.Sleep(150 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []bool{false, true}, o.sent())
		require.Len(t, o.all(), 1)
		a := o.all()[0]
		require.NoError(t, a.Err)
		require.True(t, a.Twice)
		require.True(t, a.Known)
		require.Empty(t, b.faults(), "the node has not failed")
	})
}

func TestACallIsNotSentAThirdTime(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		time.Sleep(3 * time.Second)
		b.set(func(args []string) []byte {
			if args[0] == "set" {
				go b.cut()
				return []byte{}
			}
			return nil
		})
		o := b.submit(Acquire, "set", "k")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.Equal(t, []bool{false, true}, o.sent())
		require.Len(t, o.all(), 1)
		require.Error(t, o.all()[0].Err)
		require.False(t, o.all()[0].Unsent)
		require.True(t, o.all()[0].Twice)
	})
}

func TestASilentConnectionIsReplacedWhereTheServerStillGreets(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		b.mu.Lock()
		b.deaf = b.conns[0]
		b.mu.Unlock()
		o := b.submit(Renew, "renew", "k")
		time.Sleep(90 * time.Millisecond)
		require.Len(t, o.all(), 1)
		require.NoError(t, o.all()[0].Err)
		require.True(t, o.all()[0].Twice)
		synctest.Wait()
		require.Equal(t, 2, b.dialled())
		require.Empty(t, b.faults())
	})
}

func TestAServerThatSaysNothingIsDownAfterTheNodeTimeout(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.set(func([]string) []byte { return []byte{} })
		o := b.submit(Acquire, "set", "k")
		time.Sleep(190 * time.Millisecond)
		require.Empty(t, o.all())
		synctest.Wait()
		require.Empty(t, b.faults())
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		require.Len(t, b.faults(), 1)
		require.Len(t, o.all(), 1)
		require.ErrorContains(t, o.all()[0].Err, "no answer within 200ms")
		require.Error(t, b.node.Submit(&Call{Owner: o, Class: Release}, clock.Now()))
	})
}

func TestAnOverdueNodeRefusesAcquiresAlone(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		silent := true
		b.set(func(args []string) []byte {
			if args[0] == "slow" && silent {
				return []byte{}
			}
			return nil
		})
		b.submit(Question, "slow", "k")
		for range 25 { // other connections' worth of traffic keeps it from being down
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			b.node.carrier.(*duplex).conn.arrived.Store(int64(b.node.now()))
		}
		require.False(t, b.node.Answers(clock.Now()))
		o := b.submit(Acquire, "set", "k")
		require.ErrorContains(t, o.all()[0].Err, "no answer for")
		require.True(t, o.all()[0].Unsent)
		require.NoError(t, b.node.Submit(&Call{Owner: &told{args: []any{"renew", "k"}}, Class: Renew}, clock.Now()))
	})
}

func TestADroppedCallLeavesTheQueueUnsentAndUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Open(Options{Timeout: nodeTimeout, Clock: clock.Now, Pulse: NewPulse(clock.Now, nodeTimeout)}, nil, nil)
		o := &told{args: []any{"set", "k"}}
		for range 10 * minPurge {
			c := &Call{Owner: o, Class: Acquire}
			require.NoError(t, n.Submit(c, clock.Now()))
			c.Drop()
		}
		require.LessOrEqual(t, n.Stats().Queued, minPurge+1, "dead calls do not pile up")
		n.mu.Lock()
		require.False(t, n.queued(n.now()))
		n.mu.Unlock()
		require.Empty(t, o.sent())
		require.Empty(t, o.all())
	})
}

func TestRenewalsAndReleasesLeaveTheQueueFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := Open(Options{Timeout: nodeTimeout, Clock: clock.Now, Pulse: NewPulse(clock.Now, nodeTimeout)}, nil, nil)
		for i, class := range []Class{Acquire, Question, Renew, Acquire, Release} {
			require.NoError(t, n.Submit(&Call{Owner: &told{}, Class: class, Index: int32(i)}, clock.Now()))
		}
		for i := range maxChunk {
			n.Owe(Debt{Key: fmt.Sprint(i), Late: true})
		}
		require.True(t, n.collect(n.now()))
		require.Len(t, n.batch, maxChunk/2+5, "debts take half of a batch")
		var order []int32
		for _, c := range n.batch[maxChunk/2:] {
			order = append(order, c.Index)
		}
		require.Equal(t, []int32{2, 4, 0, 1, 3}, order)
	})
}

func TestAnIdleNodeIsAskedSomethingAndABrokenConnectionNoticedAtOnce(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		pings := 0
		b.set(func(args []string) []byte {
			if args[0] == "ping" {
				pings++
			}
			return nil
		})
		time.Sleep(61 * time.Second)
		synctest.Wait()
		require.InDelta(t, 6, pings, 1)
		synctest.Wait()
		met := b.meetings()
		b.cut()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, met+1, b.meetings(), "connected anew and asked who it is, without a call")
	})
}

func TestANodeThatAnswersEveryCommandWithAnErrorIsToldOnce(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.set(func(args []string) []byte {
			if args[0] == "set" {
				return []byte("-OOM command not allowed\r\n")
			}
			return nil
		})
		for range 10 {
			b.submit(Acquire, "set", "k")
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		require.Len(t, b.refusals(), 1)
		require.ErrorContains(t, b.refusals()[0], "out of memory")
		require.ErrorContains(t, b.node.Stats().Refusing, "OOM")
		require.Empty(t, b.faults())
		b.set(nil)
		b.submit(Acquire, "set", "k")
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		require.Len(t, b.refusals(), 2)
		require.NoError(t, b.refusals()[1])
	})
}

func TestStopPaysAllDebts(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		b.set(func(args []string) []byte {
			if args[0] != "evalsha" {
				return nil
			}
			var n int
			_, _ = fmt.Sscan(args[2], &n)
			v := wire.Value{Kind: wire.List}
			for range n {
				v.List = append(v.List, wire.Value{Kind: wire.Int, Int: 1})
			}
			return wire.AppendReply(nil, v)
		})
		for i := range 5000 {
			b.node.Owe(Debt{Key: fmt.Sprint(i), Token: "t", Late: true})
		}
		begin := time.Now()
		b.node.Stop()
		<-b.node.Exited()
		require.Less(t, time.Since(begin), nodeTimeout)
		paid := 0
		for _, command := range b.commands() {
			var sha string
			var n int
			_, _ = fmt.Sscanf(command, "evalsha %s %d", &sha, &n)
			paid += n
		}
		require.GreaterOrEqual(t, paid, 5000)
	})
}

func TestThePulseStandsStillWhileTheProcessDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		now := func() clock.Instant { return clock.At(time.Now(), time.Duration(slept.Load())) }
		p := NewPulse(now, nodeTimeout)
		p.touch(now())
		time.Sleep(25 * time.Millisecond)
		require.Equal(t, 25*time.Millisecond, p.Now())
		slept.Store(int64(300 * time.Millisecond)) // as after a stop: the beat that is due comes late
		require.InDelta(t, 30*time.Millisecond, p.Now(), float64(6*time.Millisecond))
		time.Sleep(50 * time.Millisecond)
		require.InDelta(t, 75*time.Millisecond, p.Now(), float64(6*time.Millisecond))
	})
}
