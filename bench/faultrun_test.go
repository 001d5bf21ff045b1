package main

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/redistest"
)

// between sums up the pieces of the time line that lie in the given milliseconds.
func between(r result, from, to float64) moment {
	sum := moment{FromMs: from, ToMs: to}
	for _, m := range r.Timeline {
		if m.FromMs >= from && m.ToMs <= to {
			sum.Acquired += m.Acquired
			sum.Failed += m.Failed
			sum.Max = max(sum.Max, m.Max)
		}
	}
	return sum
}

func TestOutageAppearsInTheRightPiecesOfTheTimeLine(t *testing.T) {
	redistest.ForTest(t, 1)[0].PauseForTest(t) // skips where there is none, or none that can be paused
	status, r, stderr := runJSON(t, t.Context(), "-spawn", "3", "-rate", "200", "-d", "3s", "-wait", "250ms",
		"-fault", "stop:0@500ms+500ms,stop:0@1500ms+500ms,stop:1@1500ms+500ms")
	require.Equal(t, exitMeasured, status, stderr)
	require.Equal(t, "open", r.Inputs.Loop)
	require.Equal(t, 200, r.Inputs.Rate)
	require.Len(t, r.Timeline, 30)
	require.Len(t, r.Faults, 3)
	for i, at := range []float64{500, 1500, 1500} {
		f := r.Faults[i]
		require.Empty(t, f.Error)
		require.InDelta(t, at, f.FromMs, 100)
		require.InDelta(t, at+500, f.ToMs, 100)
	}
	require.Zero(t, between(r, 0, 1400).Failed, "one node of three may be stopped")
	during, after := between(r, 1500, 2000), between(r, 2500, 3000)
	require.Positive(t, during.Failed, "those that began more than the wait before the end")
	require.Positive(t, during.Acquired, "those that waited for the end")
	require.Greater(t, during.Max, 100e3)
	require.Less(t, r.Timeline[29].P50, during.Max/2)
	require.EqualValues(t, 100, after.Acquired+after.Failed)
	whole := between(r, 0, 3000)
	require.EqualValues(t, 600, whole.Acquired+whole.Failed, "every start of the schedule is somewhere")
	require.EqualValues(t, 600, r.Schedule.Scheduled)
	require.GreaterOrEqual(t, r.Results[acquire].Max, during.Max*0.98)
}

func TestFaultsOfEveryKindAreDoneAndOver(t *testing.T) {
	redistest.ForTest(t, 1) // skips where there is none
	status, r, stderr := runJSON(t, t.Context(), "-rtt", "0s,1ms,2ms", "-d", "1s", "-ttl", "200ms",
		"-fault", "kill:0@100ms,restart:0@200ms,delay:1=5ms@100ms+200ms,hang:2@300ms+200ms,cut:1@600ms,delay:2=3ms@700ms")
	require.Equal(t, exitMeasured, status, stderr)
	require.Len(t, r.Faults, 6)
	ends := map[string]float64{}
	for _, f := range r.Faults {
		require.Empty(t, f.Error, f.Fault)
		ends[f.Fault] = f.ToMs
	}
	require.InDelta(t, 200, ends["kill:0@100ms"], 150, "until the restart")
	require.InDelta(t, 300, ends["delay:1=5ms@100ms+200ms"], 100)
	require.InDelta(t, r.MeasuredMs, ends["delay:2=3ms@700ms"], 100, "until the end of the run")
	require.Positive(t, r.Nodes[0].Failures)
	require.Equal(t, []float64{0, 1, 2}, []float64{r.Nodes[0].RTTMs, r.Nodes[1].RTTMs, r.Nodes[2].RTTMs})
	require.Positive(t, r.locks())
}

func TestInterruptEndsFaultsAndSaysSo(t *testing.T) {
	redistest.ForTest(t, 1)[0].PauseForTest(t) // skips where there is none, or none that can be paused
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	status, r, stderr := runJSON(t, ctx, "-spawn", "3", "-rate", "100", "-d", "1m", "-fault", "stop:0@100ms+50s,stop:1@30s+1s")
	require.Equal(t, exitInterrupted, status)
	require.Regexp(t, `^bench: interrupted after .* of 1m: the result is partial\n$`, stderr)
	require.True(t, r.Partial)
	require.Len(t, r.Faults, 1, "the other was not begun")
	require.Less(t, r.Faults[0].ToMs, 3000.0)
	require.LessOrEqual(t, len(r.Timeline), 20)
}

func TestServerThatDiesByItselfIsNamed(t *testing.T) {
	redistest.ForTest(t, 1) // skips where there is none
	set, err := openNodes(settings{spawn: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, set.stop()) }()
	require.NoError(t, set.died())
	require.NoError(t, set.spawned[0].begin(fault{verb: "kill"}))
	require.NoError(t, set.spawned[1].server.Kill())
	err = set.died()
	require.ErrorContains(t, err, set.spawned[1].addr())
	require.NotContains(t, err.Error(), set.spawned[0].addr())
}

func TestCutEndsIdleConnectionsThroughAProxyToo(t *testing.T) {
	redistest.ForTest(t, 1) // skips where there is none
	set, err := openNodes(settings{spawn: 2, rtts: []time.Duration{0, time.Millisecond}})
	require.NoError(t, err)
	defer func() { require.NoError(t, set.stop()) }()
	for _, n := range set.spawned {
		conn, err := net.Dial("tcp", n.addr())
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
		_, err = conn.Write([]byte("PING\r\n"))
		require.NoError(t, err)
		answer := make([]byte, len("+PONG\r\n"))
		_, err = io.ReadFull(conn, answer)
		require.NoError(t, err)
		require.NoError(t, n.begin(fault{verb: "cut"}))
		_, err = conn.Read(answer)
		require.ErrorIs(t, err, io.EOF)
	}
}
