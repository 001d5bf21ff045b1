package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redlock-go/redlock/internal/clock"
)

func second(n int) clock.Instant {
	return after(time.Duration(n) * time.Second)
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) clock.Instant { return clock.At(epoch.Add(d), 0) }

func afterSleep(d, slept time.Duration) clock.Instant { return clock.At(epoch.Add(d), slept) }

func debtOf(id int, expires clock.Instant) Debt { return Debt{Key: id, Expires: expires} }

func idsOf(batch []Debt) []int {
	ids := []int{}
	for _, d := range batch {
		ids = append(ids, d.Key.(int))
	}
	return ids
}

func TestDebtsArePaidInTheirOrder(t *testing.T) {
	var l ledger
	for id := range 5 {
		l.owe(debtOf(id, second(10)))
	}
	require.Equal(t, []int{0, 1, 2, 3, 4}, idsOf(l.take(maxChunk, second(0), false)))
	require.Empty(t, l.take(maxChunk, second(0), false), "taken once")
}

func TestABatchTakesNoMoreDebtsThanItHasRoomFor(t *testing.T) {
	var l ledger
	for id := range 5 {
		l.owe(debtOf(id, second(10)))
		l.repeat(debtOf(10+id, second(10)), second(1))
	}
	require.Equal(t, []int{0, 1}, idsOf(l.take(2, second(2), false)))
	require.Equal(t, []int{2, 3, 4, 10}, idsOf(l.take(4, second(2), false)))
	require.Empty(t, l.take(0, second(2), false))
	require.Equal(t, []int{11, 12, 13, 14}, idsOf(l.take(10, second(2), false)))
}

func TestAnExpiredDebtIsDroppedAndTakesNoRoom(t *testing.T) {
	var l ledger
	l.owe(debtOf(0, second(1)))
	l.owe(debtOf(1, second(2)))
	l.owe(debtOf(2, second(9)))
	require.Equal(t, []int{2}, idsOf(l.take(1, second(2), false)), "the key is gone at the end of its ttl")
	_, planned := l.nextDue(second(2))
	require.False(t, planned)
}

func TestALateDebtNeverExpires(t *testing.T) {
	var l ledger
	late := debtOf(0, second(1))
	late.Late = true
	l.owe(late)
	l.owe(debtOf(1, second(1)))
	require.Equal(t, []int{0}, idsOf(l.take(maxChunk, second(1000), false)))
}

func TestTheLedgerIsBoundedAndTheOldestDebtsGoFirst(t *testing.T) {
	var l ledger
	const more = 3
	for id := range maxDebts + more {
		l.owe(debtOf(id, second(10)))
		l.repeat(debtOf(id, second(10)), second(1))
	}
	require.Len(t, l.owed, maxDebts)
	require.Len(t, l.repeats, maxDebts)
	require.Equal(t, []int{more, more + 1}, idsOf(l.take(2, second(0), false)))
	l.owed = nil
	require.Equal(t, []int{more, more + 1}, idsOf(l.take(2, second(1), false)))
}

func TestADebtThatWasAnsweredIsPaidOnceMoreWhenDue(t *testing.T) {
	var l ledger
	l.owe(debtOf(0, second(10)))
	batch := l.take(maxChunk, second(0), false)
	l.settle(batch[0], true, second(2))
	require.Empty(t, l.take(maxChunk, second(1), false), "not yet")
	delay, planned := l.nextDue(second(1))
	require.True(t, planned)
	require.Equal(t, time.Second, delay)

	batch = l.take(maxChunk, second(2), false)
	require.Equal(t, []int{0}, idsOf(batch))
	l.settle(batch[0], true, second(4))
	_, planned = l.nextDue(second(100))
	require.False(t, planned, "twice is enough")
}

func TestADebtThatWasNotAnsweredStaysOwed(t *testing.T) {
	var l ledger
	l.owe(debtOf(0, second(10)))
	batch := l.take(maxChunk, second(0), false)
	l.settle(batch[0], false, second(2))
	delay, planned := l.nextDue(second(1))
	require.True(t, planned)
	require.Zero(t, delay, "at once: a node that is down is not asked anyway")

	batch = l.take(maxChunk, second(1), false)
	l.settle(batch[0], true, second(3))
	batch = l.take(maxChunk, second(3), false)
	require.Equal(t, []int{0}, idsOf(batch))
	l.settle(batch[0], false, second(5))
	require.Empty(t, l.take(maxChunk, second(4), false), "a repetition stays one")
	batch = l.take(maxChunk, second(5), false)
	require.Equal(t, []int{0}, idsOf(batch))
	l.settle(batch[0], true, second(7))
	require.Equal(t, ledger{owed: []Debt{}, repeats: []Debt{}}, l)
}

func TestARepetitionIsPaidEvenAfterTheKeysTTL(t *testing.T) {
	var l ledger
	l.repeat(debtOf(0, second(1)), second(2))
	require.Equal(t, []int{0}, idsOf(l.take(maxChunk, second(1000), false)))
}

func TestRepetitionsAreDueInTheirOrderAndAfterWhatIsOwed(t *testing.T) {
	var l ledger
	for id := range 3 {
		l.repeat(debtOf(id, second(10)), second(2+id))
	}
	l.owe(debtOf(7, second(10)))
	require.Equal(t, []int{7, 0, 1}, idsOf(l.take(maxChunk, second(3), false)))
	require.Equal(t, []int{2}, idsOf(l.take(maxChunk, second(4), false)))
}

func TestTheLastPaymentTakesEverything(t *testing.T) {
	var l ledger
	l.repeat(debtOf(2, second(1)), second(1000))
	l.owe(debtOf(0, second(1)))
	l.owe(debtOf(1, second(1)))
	require.Equal(t, []int{0, 1, 2}, idsOf(l.take(maxChunk, second(0), true)))
	require.Zero(t, l.len())
	require.Empty(t, l.take(maxChunk, second(0), true))
}

func TestWhatIsPlannedForNowIsTakenWhateverBecameOfTheClocks(t *testing.T) {
	for _, slept := range []time.Duration{0, 1, time.Minute} {
		for _, due := range []time.Duration{time.Second, time.Minute} {
			var l ledger
			l.repeat(debtOf(0, second(1)), after(due))
			now := afterSleep(5*time.Second, slept)
			delay, planned := l.nextDue(now)
			require.True(t, planned)
			require.Equal(t, delay <= 0, len(l.take(maxChunk, now, false)) == 1, "slept %v, due after %v", slept, due)
		}
	}
}

// twinDebt is a debt in the naive ledger: one unordered heap of them.
type twinDebt struct {
	id, seq      int
	again, late  bool
	expires, due int
}

type twinLedger struct {
	debts []twinDebt
	seq   int
}

func (w *twinLedger) add(d twinDebt) {
	w.seq++
	d.seq = w.seq
	w.debts = append(w.debts, d)
}

// payable lists the debts to send now: first payments before repetitions, each by age.
func (w *twinLedger) payable(now int) []twinDebt {
	var out []twinDebt
	for _, d := range w.debts {
		if d.again && d.due <= now || !d.again && (d.late || now < d.expires) {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b twinDebt) int {
		switch {
		case a.again == b.again:
			return a.seq - b.seq
		case b.again:
			return -1
		default:
			return 1
		}
	})
	return out
}

func (w *twinLedger) remove(id int) {
	w.debts = slices.DeleteFunc(w.debts, func(d twinDebt) bool { return d.id == id })
}

func TestTheLedgerPaysWhatItsTwinPays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l ledger
		var twin twinLedger
		now, ids := 0, 0
		paid := make(map[int]int)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"owe", "owe", "oweAgain", "pay", "pay", "wait"}).Draw(t, "step") {
			case "owe":
				d := twinDebt{id: ids, late: rapid.Bool().Draw(t, "late"), expires: now + rapid.IntRange(0, 8).Draw(t, "ttl")}
				ids++
				twin.add(d)
				l.owe(Debt{Key: d.id, Expires: second(d.expires), Late: d.late})
			case "oweAgain":
				twin.add(twinDebt{id: ids, again: true, due: now + 2})
				l.repeat(Debt{Key: ids}, second(now+2))
				ids++
			case "wait":
				now += rapid.IntRange(1, 4).Draw(t, "seconds")
			case "pay":
				room := rapid.IntRange(1, 5).Draw(t, "room")
				want := twin.payable(now)
				want = want[:min(room, len(want))]
				got := l.take(room, second(now), false)
				require.Len(t, got, len(want))
				for i, d := range want {
					require.Equal(t, d.id, got[i].Key)
					require.Equal(t, d.again, got[i].again)
				}
				answered := rapid.Bool().Draw(t, "answered")
				for i, d := range want {
					twin.remove(d.id)
					switch {
					case answered && d.again:
						paid[d.id]++
					case answered || d.again:
						if answered {
							paid[d.id]++
						}
						d.again, d.due = true, now+2
						twin.add(d)
					default:
						twin.add(d)
					}
					l.settle(got[i], answered, second(now+2))
				}
			}
			delay, planned := l.nextDue(second(now))
			if due := len(twin.payable(now)) > 0; due {
				require.True(t, planned && delay <= 0, "nobody comes for %v", fmt.Sprint(twin.payable(now)))
			}
		}
		for id, times := range paid {
			require.LessOrEqual(t, times, 2, "debt %d", id)
		}
	})
}
