package wire

import (
	"strconv"
	"time"
)

// Outcome is what a lock command did on a node.
type Outcome uint8

const (
	Unknown    Outcome = iota // the reply is none of the command's
	Done                      // the key was free and has been taken; the token was there and was renewed or deleted
	OtherToken                // the key holds another token
	Missing                   // the key was missing
	Healed                    // the key was missing and was set again
)

// Result is a reply to a lock command, read.
type Result struct {
	Outcome Outcome
	Timed   bool          // a renewal, or a refusal at the gate, found the key with an expiry …
	Left    time.Duration // … that far away
	Woke    bool          // a release woke a waiter
	Since   int64         // when the line entered the gate's list, in µs by the node's clock; 0: it is not there
	Blocked int           // index of the first key that is not free …
	Holder  string        // … and the token there, "" if it is not known
	Fence   int64         // the number of a grant
}

// ReadSet reads the reply to SetArgs.
func ReadSet(v Value) Result {
	switch {
	case (v.Kind == Status || v.Kind == Text) && v.Text == "OK":
		return Result{Outcome: Done}
	case v.Kind == Nil:
		return Result{Outcome: OtherToken}
	}
	return Result{}
}

// ReadAcquire reads the reply to AcquireArgs for so many keys.
func ReadAcquire(v Value, keys int) Result {
	var numbers [4]int64
	n := v.numbers(&numbers)
	switch {
	case len(v.List) == 3 && n == 2 && numbers[0] == 1 && isFence(numbers[1]):
		if since, ok := sinceOf(v.List[2]); ok {
			return Result{Outcome: Done, Fence: numbers[1], Since: since}
		}
	case len(v.List) == 5 && n == 3 && numbers[0] == 0 && numbers[1] > 0 && numbers[1] <= int64(keys) && numbers[2] >= Gone:
		since, ok := sinceOf(v.List[3])
		if holder := v.List[4]; ok && holder.Kind == Text {
			return Result{
				Outcome: OtherToken, Since: since, Blocked: int(numbers[1] - 1), Holder: holder.Text,
				Left: Millis(numbers[2]), Timed: numbers[2] >= 0,
			}
		}
	}
	return Result{}
}

// Gone is what PTTL tells of a key that is missing; -1 of one without expiry. It tells nothing less.
const Gone = -2

// MaxFence is the largest number that scripts can count to.
const MaxFence = 1<<53 - 1

func isFence(n int64) bool { return n >= 0 && n <= MaxFence }

// sinceOf reads when somebody entered a waiting list; "" if nobody did.
func sinceOf(v Value) (since int64, ok bool) {
	if v.Kind != Text || v.Text == "" {
		return 0, v.Kind == Text
	}
	return Whole(v.Text)
}

// Whole reads a number as scripts write them: digits alone.
func Whole(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// ReadRenewal reads the reply to RenewArgs.
func ReadRenewal(v Value) Result {
	var numbers [4]int64
	if n := v.numbers(&numbers); v.Kind != List || n != len(v.List) {
		return Result{}
	}
	switch {
	case len(v.List) == 3 && numbers[0] == 1 && numbers[1] >= Gone && isFence(numbers[2]):
		return Result{Outcome: Done, Left: Millis(numbers[1]), Timed: numbers[1] >= 0, Fence: numbers[2]}
	case len(v.List) != 1:
	case numbers[0] == 2:
		return Result{Outcome: Healed}
	case numbers[0] == 3:
		return Result{Outcome: Missing}
	case numbers[0] == 0:
		return Result{Outcome: OtherToken}
	}
	return Result{}
}

// ReadRelease reads what a node said to the release of one key.
func ReadRelease(v Value) Result {
	if v.Kind != Int {
		return Result{}
	}
	switch v.Int {
	case 0:
		return Result{Outcome: OtherToken}
	case 1, 5:
		return Result{Outcome: Done, Woke: v.Int == 5}
	case 2, 6:
		return Result{Outcome: Missing, Woke: v.Int == 6}
	}
	return Result{}
}

// Millis returns a number of milliseconds that a node told. It is 146 years at most, so that sums of two do not
// overflow, and 0 for a PTTL that is no time.
func Millis(ms int64) time.Duration {
	const most = (1 << 62) / int64(time.Millisecond)
	return time.Duration(min(max(ms, 0), most)) * time.Millisecond
}
