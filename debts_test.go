package redlock

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

func debtOf(id int, expires clock.Instant) debt { return debt{key: id, expires: expires} }

func idsOf(batch []*call) []int {
	ids := []int{}
	for _, c := range batch {
		ids = append(ids, c.debt.key.(int))
	}
	return ids
}

func TestDebtsArePaidInTheirOrder(t *testing.T) {
	var l ledger
	for id := range 5 {
		l.owe(debtOf(id, second(10)))
	}
	require.Equal(t, []int{0, 1, 2, 3, 4}, idsOf(l.take(nil, second(0), maxBatch)))
	require.Empty(t, l.take(nil, second(0), maxBatch), "taken once")
}

func TestABatchTakesNoMoreDebtsThanItHasRoomFor(t *testing.T) {
	var l ledger
	for id := range 5 {
		l.owe(debtOf(id, second(10)))
		l.repeat(debtOf(10+id, second(10)), second(1))
	}
	first := &call{debt: &debt{key: -1}}
	require.Equal(t, []int{-1, 0, 1}, idsOf(l.take([]*call{first}, second(2), 3)), "beside what is in it")
	require.Equal(t, []int{2, 3, 4, 10}, idsOf(l.take(nil, second(2), 4)))
	require.Empty(t, l.take(nil, second(2), 0))
	require.Equal(t, []int{11, 12, 13, 14}, idsOf(l.take(nil, second(2), 10)))
}

func TestAnExpiredDebtIsDroppedAndTakesNoRoom(t *testing.T) {
	var l ledger
	l.owe(debtOf(0, second(1)))
	l.owe(debtOf(1, second(2)))
	l.owe(debtOf(2, second(9)))
	require.Equal(t, []int{2}, idsOf(l.take(nil, second(2), 1)), "the key is gone at the end of its ttl")
	_, planned := l.nextDue(second(2))
	require.False(t, planned)
}

func TestALateDebtNeverExpires(t *testing.T) {
	var l ledger
	late := debtOf(0, second(1))
	late.late = true
	l.owe(late)
	l.owe(debtOf(1, second(1)))
	require.Equal(t, []int{0}, idsOf(l.take(nil, second(1000), maxBatch)))
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
	require.Equal(t, []int{more, more + 1}, idsOf(l.take(nil, second(0), 2)))
	l.owed = nil
	require.Equal(t, []int{more, more + 1}, idsOf(l.take(nil, second(1), 2)))
}

func TestADebtThatWasAnsweredIsPaidOnceMoreWhenDue(t *testing.T) {
	var l ledger
	l.owe(debtOf(0, second(10)))
	batch := l.take(nil, second(0), maxBatch)
	l.settle(*batch[0].debt, true, second(2))
	require.Empty(t, l.take(nil, second(1), maxBatch), "not yet")
	delay, planned := l.nextDue(second(1))
	require.True(t, planned)
	require.Equal(t, time.Second, delay)

	batch = l.take(nil, second(2), maxBatch)
	require.Equal(t, []int{0}, idsOf(batch))
	l.settle(*batch[0].debt, true, second(4))
	_, planned = l.nextDue(second(100))
	require.False(t, planned, "twice is enough")
}

func TestADebtThatWasNotAnsweredStaysOwed(t *testing.T) {
	var l ledger
	l.owe(debtOf(0, second(10)))
	batch := l.take(nil, second(0), maxBatch)
	l.settle(*batch[0].debt, false, second(2))
	delay, planned := l.nextDue(second(1))
	require.True(t, planned)
	require.Zero(t, delay, "at once: a node that is down is not asked anyway")

	batch = l.take(nil, second(1), maxBatch)
	l.settle(*batch[0].debt, true, second(3))
	batch = l.take(nil, second(3), maxBatch)
	require.Equal(t, []int{0}, idsOf(batch))
	l.settle(*batch[0].debt, false, second(5))
	require.Empty(t, l.take(nil, second(4), maxBatch), "a repetition stays one")
	batch = l.take(nil, second(5), maxBatch)
	require.Equal(t, []int{0}, idsOf(batch))
	l.settle(*batch[0].debt, true, second(7))
	require.Equal(t, ledger{owed: []debt{}, repeats: []debt{}}, l)
}

func TestARepetitionIsPaidEvenAfterTheKeysTTL(t *testing.T) {
	var l ledger
	l.repeat(debtOf(0, second(1)), second(2))
	require.Equal(t, []int{0}, idsOf(l.take(nil, second(1000), maxBatch)))
}

func TestRepetitionsAreDueInTheirOrderAndAfterWhatIsOwed(t *testing.T) {
	var l ledger
	for id := range 3 {
		l.repeat(debtOf(id, second(10)), second(2+id))
	}
	l.owe(debtOf(7, second(10)))
	require.Equal(t, []int{7, 0, 1}, idsOf(l.take(nil, second(3), maxBatch)))
	require.Equal(t, []int{2}, idsOf(l.take(nil, second(4), maxBatch)))
}

func TestTheLastPaymentTakesEverything(t *testing.T) {
	var l ledger
	l.repeat(debtOf(2, second(1)), second(1000))
	l.owe(debtOf(0, second(1)))
	l.owe(debtOf(1, second(1)))
	require.Equal(t, []int{0, 1, 2}, idsOf(l.takeAll(nil)))
	require.Equal(t, ledger{}, l)
	require.Empty(t, l.takeAll(nil))
}

func TestWhatIsPlannedForNowIsTakenWhateverBecameOfTheClocks(t *testing.T) {
	for _, slept := range []time.Duration{0, 1, time.Minute} {
		for _, due := range []time.Duration{time.Second, time.Minute} {
			var l ledger
			l.repeat(debtOf(0, second(1)), after(due))
			now := afterSleep(5*time.Second, slept)
			delay, planned := l.nextDue(now)
			require.True(t, planned)
			require.Equal(t, delay <= 0, len(l.take(nil, now, maxBatch)) == 1, "slept %v, due after %v", slept, due)
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
				l.owe(debt{key: d.id, expires: second(d.expires), late: d.late})
			case "oweAgain":
				twin.add(twinDebt{id: ids, again: true, due: now + 2})
				l.repeat(debt{key: ids}, second(now+2))
				ids++
			case "wait":
				now += rapid.IntRange(1, 4).Draw(t, "seconds")
			case "pay":
				room := rapid.IntRange(1, 5).Draw(t, "room")
				want := twin.payable(now)
				want = want[:min(room, len(want))]
				got := l.take(nil, second(now), room)
				require.Len(t, got, len(want))
				for i, d := range want {
					require.Equal(t, d.id, got[i].debt.key)
					require.Equal(t, d.again, got[i].debt.again)
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
					l.settle(*got[i].debt, answered, second(now+2))
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

func TestCloseSendsAllReleasesThatAreOwed(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		const many = 1000
		l := w.open()
		var locks []*Lock
		for i := range many {
			locks = append(locks, w.hold(l, fmt.Sprint("order", i), time.Hour))
		}
		time.Sleep(10 * time.Millisecond)
		w.nodes[2].hang()
		for _, k := range locks[:10] {
			_ = k.Release(t.Context())
		}
		time.Sleep(5 * time.Second) // it is known to be down
		for _, k := range locks[10:] {
			require.NoError(t, k.Release(t.Context()))
		}
		require.GreaterOrEqual(t, l.Stats().Nodes[2].Debts, many-10)
		w.nodes[2].resume()
		require.NoError(t, l.Close())
		time.Sleep(time.Second)
		for i := range many {
			w.keyless(fmt.Sprint("order", i))
		}
	})
}
