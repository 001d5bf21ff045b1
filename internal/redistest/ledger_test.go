package redistest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func always(c cut) func() cut { return func() cut { return c } }

func never() bool { return false }

func TestCutBeforeLetsTheRequestUnderWayEnd(t *testing.T) {
	var g ledger
	pass, doomed := g.request([]byte("$4\r\nPI"), always(noCut))
	require.False(t, doomed)
	require.Equal(t, "$4\r\nPI", string(pass))
	pass, doomed = g.request([]byte("NG\r\nECHO\r\n"), always(cutBefore))
	require.True(t, doomed)
	require.Equal(t, "NG\r\n", string(pass))
}

func TestCutAfterIsDueWhenEverythingPassedOnIsAnswered(t *testing.T) {
	var g ledger
	_, _ = g.request([]byte("A\r\n"), always(noCut))
	cuts := []cut{noCut, cutAfter}
	pass, doomed := g.request([]byte("B\r\nC\r\nD"), func() cut { c := cuts[0]; cuts = cuts[1:]; return c })
	require.False(t, doomed)
	require.Equal(t, "B\r\nC\r\nD", string(pass))
	sealed, due := g.seal()
	require.False(t, sealed, "D is not complete")
	require.False(t, due)
	_, _ = g.request([]byte("\r\n"), always(cutBefore))
	sealed, due = g.seal()
	require.True(t, sealed)
	require.False(t, due)

	pass, due = g.reply([]byte("+a\r\n+b\r\n+c"), never)
	require.Equal(t, "+a\r\n+b\r\n", string(pass), "replies to earlier requests pass")
	require.False(t, due)
	pass, due = g.reply([]byte("\r\n+d\r\n"), never)
	require.Empty(t, pass)
	require.True(t, due)
	require.True(t, g.spoilt())
}

func TestRepliesThatOvertakeTheSealMakeTheCutDueThere(t *testing.T) {
	var g ledger
	_, _ = g.request([]byte("A\r\n"), always(cutAfter))
	pass, due := g.reply([]byte("+a\r\n"), never)
	require.Empty(t, pass)
	require.False(t, due)
	_, due = g.seal()
	require.True(t, due)
}

func TestNothingPassesBehindADroppedReply(t *testing.T) {
	var g ledger
	_, _ = g.request([]byte("A\r\nB\r\n"), always(noCut))
	require.False(t, g.spoilt())
	pass, _ := g.reply([]byte("+a"), never)
	require.Equal(t, "+a", string(pass))
	pass, _ = g.reply([]byte("\r\n"), func() bool { return true })
	require.Empty(t, pass)
	pass, _ = g.reply([]byte("+b\r\n"), never)
	require.Empty(t, pass)
	require.True(t, g.spoilt())
}

func TestMessagesToASubscriberAnswerNoRequest(t *testing.T) {
	var g ledger
	_, _ = g.reply([]byte("*1\r\n+m\r\n*1\r\n+m\r\n>1\r\n+m\r\n"), never)
	_, _ = g.request([]byte("A\r\n"), always(cutAfter))
	_, due := g.seal()
	require.False(t, due)
	_, due = g.reply([]byte("+a\r\n"), never)
	require.True(t, due)
}
