package redlock

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const randomPart = "AAAAAAAAAAAAAAAAAAAA_-" // as long as newToken's

func held(token string, left time.Duration, fence int64) reading {
	return reading{answered: true, holds: true, token: token, left: left, fence: fence}
}

func TestAStateIsWhatAQuorumOfTheConfiguredNodesTells(t *testing.T) {
	ours := "me/" + randomPart
	silent := reading{err: errors.New("no answer within 200ms")}
	free := reading{answered: true}
	list := reading{answered: true, left: time.Hour, err: errors.New("holds a list, not a lock")}
	for name, c := range map[string]struct {
		readings []reading
		want     State // without Key and Nodes
	}{
		"one node holds it":          {[]reading{held(ours, 5, 3)}, State{Held: true, Token: ours, Owner: "me", TTL: 5, Fence: 3}},
		"one node does not":          {[]reading{free}, State{}},
		"half is no quorum":          {[]reading{held(ours, 5, 3), free}, State{}},
		"two of three":               {[]reading{held(ours, 5, 3), free, held(ours, 7, 2)}, State{Held: true, Token: ours, Owner: "me", TTL: 5, Fence: 2}},
		"all three: the second life": {[]reading{held(ours, 5, 1), held(ours, 9, 3), held(ours, 7, 2)}, State{Held: true, Token: ours, Owner: "me", TTL: 7, Fence: 2}},
		"lives and fences of different nodes": {
			[]reading{held(ours, 1, 3), held(ours, 2, 1), held(ours, 3, 2)}, State{Held: true, Token: ours, Owner: "me", TTL: 2, Fence: 2},
		},
		"no expiry is the longest life": {[]reading{held("x", -1, 0), held("x", 4, 0), held("x", 6, 0)}, State{Held: true, Token: "x", TTL: 6}},
		"a quorum without an expiry":    {[]reading{held("x", -1, 0), held("x", 4, 0), held("x", -1, 0)}, State{Held: true, Token: "x", TTL: -1}},
		"a life of less than 1 ms":      {[]reading{held("x", 0, 0), held("x", 0, 0), free}, State{Held: true, Token: "x"}},
		"an empty value is a token too": {[]reading{held("", 4, 0), held("", 6, 0), free}, State{Held: true, TTL: 4}},
		"missing is no common token":    {[]reading{free, free, held("x", 4, 0)}, State{}},
		"fences that are missing are 0": {[]reading{held(ours, 5, 8), held(ours, 5, 0), free}, State{Held: true, Token: ours, Owner: "me", TTL: 5}},
		"the fence of another token is not the holder's": {
			[]reading{held("a", 5, 1), held("b", 5, 9), held("a", 5, 1)}, State{Held: true, Token: "a", TTL: 5, Fence: 1},
		},
		"split votes":                            {[]reading{held("a", 5, 1), held("b", 5, 1), held("c", 5, 1)}, State{}},
		"a minority that agrees":                 {[]reading{held("a", 5, 1), held("a", 5, 1), free, list, silent}, State{}},
		"those who are silent lower no quorum":   {[]reading{held("a", 5, 1), held("a", 5, 1), silent, silent, silent}, State{}},
		"a quorum in spite of the others":        {[]reading{held("a", 5, 1), silent, held("a", 6, 1), list, held("a", 7, 1)}, State{Held: true, Token: "a", TTL: 5, Fence: 1}},
		"a list has no token, even if all do":    {[]reading{list, list, list}, State{}},
		"four nodes need three":                  {[]reading{held("a", 5, 1), held("a", 6, 1), held("b", 5, 1), held("b", 5, 1)}, State{}},
		"whoever is silent about all is unknown": {[]reading{silent, silent, silent}, State{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := stateOf("orders", majority(len(c.readings)), c.readings)
			require.Len(t, got.Nodes, len(c.readings))
			for i, r := range c.readings {
				require.Equal(t, NodeState{Token: r.token, TTL: r.left, Err: r.err}, got.Nodes[i])
			}
			got.Nodes, c.want.Key = nil, "orders"
			require.Equal(t, &c.want, got)
		})
	}
}

func TestTheOwnerIsReadFromTokensOfThisLibraryAlone(t *testing.T) {
	require.Equal(t, "host:1", ownerOf(newToken("host:1")))
	for token, owner := range map[string]string{
		"me/" + randomPart:           "me",
		"a/b/" + randomPart:          "a/b",
		"a\nb\xff/" + randomPart:     "a\nb\xff",
		"/" + randomPart:             "",
		"":                           "",
		"me":                         "",
		"me/":                        "",
		randomPart:                   "",
		"me/" + randomPart[1:]:       "",
		"me/x" + randomPart:          "",
		"me/" + randomPart + "\n":    "",
		"me/" + randomPart[1:] + "=": "",
		"me/" + randomPart[1:] + "+": "",
		"me/" + randomPart[2:] + "é": "",
		"0kY3hXJ0vJ1dL8yq7lZbCw==":   "", // redsync
		"a/Y3hXJ0vJ1dL8yq7lZbCw==":   "",
		"9b2d6ed1bd9a2e4b1f9c4c4d0f4c0f9c8a7b6c5d":  "", // node-redlock
		"HOST:2f1f7f2c-6a3c-4a0e-8b8a-4d7b8a3c2e11": "", // StackExchange.Redis
	} {
		require.Equal(t, owner, ownerOf(token), "%q", token)
	}
}

// anyReading draws from few values, so that nodes agree now and then.
func anyReading() *rapid.Generator[reading] {
	return rapid.Custom(func(t *rapid.T) reading {
		left := time.Duration(rapid.SampledFrom([]int64{-1, 0, 1, 2, 5, 9, math.MaxInt64}).Draw(t, "left"))
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			return reading{err: errors.New("silent")}
		case 1:
			return reading{answered: true}
		case 2:
			return reading{answered: true, left: left, err: errors.New("holds a list, not a lock")}
		}
		token := rapid.SampledFrom([]string{"a", "a", "a", "", "me/" + randomPart}).Draw(t, "token")
		return held(token, left, rapid.Int64Range(0, 4).Draw(t, "fence"))
	})
}

// naiveState takes each node's word as a claim about a quorum and counts who supports it.
func naiveState(key string, quorum int, readings []reading) *State {
	s := &State{Key: key}
	for _, r := range readings {
		s.Nodes = append(s.Nodes, NodeState{Token: r.token, TTL: r.left, Err: r.err})
	}
	endless := func(d time.Duration) bool { return d < 0 }
	for _, claim := range readings {
		same, outlive, reach := 0, 0, 0
		for _, r := range readings {
			if !claim.holds || !r.holds || r.token != claim.token {
				continue
			}
			same++
			if endless(r.left) || !endless(claim.left) && r.left >= claim.left {
				outlive++
			}
			if r.fence >= claim.fence {
				reach++
			}
		}
		if same < quorum {
			continue
		}
		s.Held, s.Token = true, claim.token
		if owner, random, found := strings.Cut(claim.token, "/"); found && len(random) == 22 {
			s.Owner = owner
		}
		if outlive >= quorum && !endless(s.TTL) && (endless(claim.left) || claim.left > s.TTL) {
			s.TTL = claim.left
		}
		if reach >= quorum {
			s.Fence = max(s.Fence, claim.fence)
		}
	}
	return s
}

func TestAStateIsTheSameAsANaiveCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		readings := rapid.SliceOfN(anyReading(), 1, 7).Draw(t, "readings")
		quorum := majority(len(readings))
		before := fmt.Sprint(readings)
		require.Equal(t, naiveState("orders", quorum, readings), stateOf("orders", quorum, readings))
		require.Equal(t, before, fmt.Sprint(readings), "it only looks at them")
	})
}

func TestAnswersThatComeTooLateNeverUnmakeAHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		readings := rapid.SliceOfN(anyReading(), 1, 7).Draw(t, "readings")
		quorum := majority(len(readings))
		first := stateOf("orders", quorum, readings)
		for i, r := range readings {
			if !r.answered {
				readings[i] = anyReading().Draw(t, "late")
			}
		}
		if first.Held {
			then := stateOf("orders", quorum, readings)
			require.True(t, then.Held)
			require.Equal(t, first.Token, then.Token)
			require.GreaterOrEqual(t, uint64(then.TTL), uint64(first.TTL))
			require.GreaterOrEqual(t, then.Fence, first.Fence)
		}
	})
}

func TestEachGoodReplyToInspectIsReadAsTheTableSays(t *testing.T) {
	list := func(reply ...any) any { return reply }
	longest := time.Duration(1<<62/1_000_000) * time.Millisecond
	for _, c := range []struct {
		reply any
		want  reading
	}{
		{list(int64(0)), reading{answered: true}},
		{list(int64(1), "x", int64(1500), ""), held("x", 1500*time.Millisecond, 0)},
		{list(int64(1), "", int64(0), "42"), held("", 0, 42)},
		{list(int64(1), "x", int64(-1), "0"), held("x", -1, 0)},
		{list(int64(1), "x", int64(-2), "42"), reading{answered: true}},
		{list(int64(1), "x", int64(math.MaxInt64), "9223372036854775807"), held("x", longest, math.MaxInt64)},
		{list(int64(2), "list", int64(-1)), reading{answered: true, left: -1, err: errors.New("holds a list, not a lock")}},
		{list(int64(2), "stream", int64(7)), reading{answered: true, left: 7 * time.Millisecond, err: errors.New("holds a stream, not a lock")}},
		{list(int64(2), "list", int64(-2)), reading{answered: true}},
	} {
		got := readingOf(c.reply, nil)
		if c.want.err != nil {
			require.EqualError(t, got.err, c.want.err.Error())
			got.err, c.want.err = nil, nil
		}
		require.Equal(t, c.want, got, "%v", c.reply)
	}
	for _, fence := range []string{"x", "-1", "1.5", " 1", "1e3", "9223372036854775808", "inf", "WRONGTYPE Operation"} {
		got := readingOf(list(int64(1), "x", int64(5), fence), nil)
		require.EqualError(t, got.err, fmt.Sprintf("its fence %q is not a number", fence))
		got.err = nil
		require.Equal(t, held("x", 5*time.Millisecond, 0), got, "the rest of it counts")
	}
}

// inspectReply draws replies that are good but for at most one element, and their meaning.
func inspectReply(t *rapid.T) any {
	millis := rapid.OneOf(rapid.Int64Range(-4, 4), rapid.Int64())
	fence := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 3, 9), rapid.Map(rapid.Int64(), func(i int64) string { return strconv.FormatInt(i, 10) }))
	var reply []any
	switch rapid.IntRange(0, 2).Draw(t, "code") {
	case 0:
		reply = []any{int64(0)}
	case 1:
		reply = []any{int64(1), rapid.String().Draw(t, "token"), millis.Draw(t, "left"), fence.Draw(t, "fence")}
	case 2:
		reply = []any{int64(2), rapid.String().Draw(t, "type"), millis.Draw(t, "left")}
	}
	switch rapid.IntRange(0, 5).Draw(t, "spoilt") {
	case 0:
		reply[rapid.IntRange(0, len(reply)-1).Draw(t, "at")] = anyReply().Draw(t, "odd")
	case 1:
		reply = append(reply, anyReply().Draw(t, "more"))
	case 2:
		reply = reply[:len(reply)-1]
	case 3:
		return anyReply().Draw(t, "any")
	}
	return reply
}

// goodInspect tells by types and value, apart from the decoder, whether a reply is one of the script's.
func goodInspect(reply any) bool {
	list, _ := reply.([]any)
	types := ""
	for _, e := range list {
		types += fmt.Sprintf("%T ", e)
	}
	switch types {
	case "int64 ":
		return list[0].(int64) == 0
	case "int64 string int64 ":
		return list[0].(int64) == 2 && list[2].(int64) >= -2
	case "int64 string int64 string ":
		return list[0].(int64) == 1 && list[2].(int64) >= -2
	}
	return false
}

func checkInspectReply(t *rapid.T) {
	reply := inspectReply(t)
	got := readingOf(reply, nil)
	if !goodInspect(reply) {
		require.ErrorContains(t, got.err, "unexpected reply")
		require.ErrorContains(t, got.err, "inspect")
		require.Equal(t, reading{err: got.err}, got, "it tells nothing else")
		return
	}
	require.True(t, got.answered)
	require.GreaterOrEqual(t, got.left, time.Duration(-1))
	require.GreaterOrEqual(t, got.fence, int64(0))
	list := reply.([]any)
	gone := len(list) == 1 || list[2] == int64(-2)
	require.Equal(t, len(list) == 4 && !gone, got.holds)
	if got.holds {
		require.Equal(t, list[1], got.token)
		number, err := strconv.ParseUint(list[3].(string), 10, 63)
		require.Equal(t, list[3] != "" && (err != nil || fmt.Sprint(number) != list[3]), got.err != nil, "%v", got.err)
		if got.err == nil {
			require.EqualValues(t, number, got.fence)
		}
	} else {
		require.Empty(t, got.token)
		require.Equal(t, !gone, got.err != nil)
	}
	if !gone && list[2].(int64) <= 1<<62/1_000_000 {
		require.Equal(t, max(-1, time.Duration(list[2].(int64))*time.Millisecond), got.left)
	}
}

func TestAnyOtherReplyToInspectIsAnErrorAndNeverAToken(t *testing.T) {
	for _, reply := range oddReplies {
		got := readingOf(reply, nil)
		require.ErrorContains(t, got.err, "unexpected reply")
		require.Equal(t, reading{err: got.err}, got)
	}
	rapid.Check(t, checkInspectReply)
}

func FuzzInspectReply(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkInspectReply)) }
