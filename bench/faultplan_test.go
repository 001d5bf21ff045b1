package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFaultsAreRead(t *testing.T) {
	faults, err := parseFaults("stop:2@3s+2s, kill:1@6s,restart:1@7s,delay:0=5ms@0s+4s,delay:3=5ms@1m,hang:1@2s+1s,cut:2@5.5s")
	require.NoError(t, err)
	const s, ms = time.Second, time.Millisecond
	require.Equal(t, []fault{
		{text: "stop:2@3s+2s", verb: "stop", node: 2, at: 3 * s, length: 2 * s},
		{text: "kill:1@6s", verb: "kill", node: 1, at: 6 * s},
		{text: "restart:1@7s", verb: "restart", node: 1, at: 7 * s},
		{text: "delay:0=5ms@0s+4s", verb: "delay", node: 0, at: 0, length: 4 * s, delay: 5 * ms},
		{text: "delay:3=5ms@1m", verb: "delay", node: 3, at: time.Minute, delay: 5 * ms},
		{text: "hang:1@2s+1s", verb: "hang", node: 1, at: 2 * s, length: s},
		{text: "cut:2@5.5s", verb: "cut", node: 2, at: 5500 * ms},
	}, faults)
	for _, f := range faults {
		require.Equal(t, f.verb == "delay" || f.verb == "hang", f.needsProxy(), f.text)
	}
}

func TestWrongFaultIsQuotedWithWhatIsAccepted(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "accepted: stop:N@T+D",
		"stop":                          "accepted: stop:N@T+D",
		"pause:1@2s+1s":                 "accepted: stop:N@T+D",
		"kill:1@1s,,":                   "accepted: stop:N@T+D",
		"stop:1":                        "add @T",
		"stop:one@3s+1s":                `"one" is not a node`,
		"stop:-1@3s+1s":                 `"-1" is not a node`,
		"stop:1@3+1s":                   `"3" is not a time`,
		"stop:1@-3s+1s":                 `"-3s" is not a time`,
		"stop:1@3s":                     "says not for how long: add +D, as in stop:1@3s+2s",
		"hang:1@3s":                     "says not for how long",
		"stop:1@3s+0s":                  `"0s" is not a time`,
		"stop:1@3s+":                    `"" is not a time`,
		"kill:1@3s+1s":                  "kill takes no length: leave out +1s",
		"cut:1@3s+1s":                   "cut takes no length",
		"delay:1@3s":                    "says not how long a delay: delay:1=5ms@3s",
		"delay:1=@3s":                   `"" is not a time`,
		"delay:1=0s@3s":                 `"0s" is not a time`,
		"delay:1=11s@3s":                "too long: at most 10s",
		"stop:1=5ms@3s+1s":              "stop takes no value: leave out =5ms",
		"kill:3@1s":                     "there is no node 3: the 3 nodes are numbered from 0",
		"kill:1@10s":                    "begins after the end of the run: -d is 10s",
		"restart:1@1s":                  "node 1 runs then: kill it first",
		"kill:1@2s,restart:1@1s":        "node 1 runs then",
		"kill:1@1s,kill:1@2s":           `node 1 is dead then, after "kill:1@1s": restart it first`,
		"kill:1@1s,stop:1@2s+1s":        "node 1 is dead then",
		"kill:1@1s,cut:1@2s":            "node 1 is dead then",
		"stop:1@1s+2s,kill:1@2s":        `"kill:1@2s" begins before "stop:1@1s+2s" has ended`,
		"stop:1@1s+2s,stop:1@2s+3s":     "has ended",
		"delay:1=1ms@1s,delay:1=2ms@3s": "has ended",
		"hang:1@1s+2s,hang:1@2s+2s":     "has ended",
	} {
		faults, err := parseFaults(text)
		if err == nil {
			err = checkFaults(faults, 3, 10*time.Second)
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestFaultsThatDoNotDisturbEachOtherAreAccepted(t *testing.T) {
	for _, text := range []string{
		"stop:1@1s+2s,stop:1@3s+20s",
		"stop:1@1s+2s,stop:2@1s+2s",
		"kill:1@1s,restart:1@2s,kill:1@3s,restart:1@3s",
		"stop:1@1s+2s,delay:1=5ms@1s+2s,hang:1@1s+1s,delay:1=7ms@3s",
	} {
		faults, err := parseFaults(text)
		require.NoError(t, err)
		require.NoError(t, checkFaults(faults, 3, 10*time.Second), text)
	}
}

func TestStopIsRefusedWhereServersCannotBePaused(t *testing.T) {
	faults, err := parseFaults("kill:1@1s,stop:2@3s+1s")
	require.NoError(t, err)
	require.NoError(t, checkStops(faults, true))
	require.NoError(t, checkStops(faults[:1], false))
	require.EqualError(t, checkStops(faults, false), `"stop:2@3s+1s": Windows cannot stop a process: take hang`)
}

func TestStepsOfANodeAreInOrderEndsFirst(t *testing.T) {
	faults, err := parseFaults("stop:1@3s+1s,hang:0@1s+1s,stop:1@1s+2s,kill:1@4s,delay:1=1ms@0s")
	require.NoError(t, err)
	var order []string
	for _, step := range faultSteps(faults, 1) {
		text := step.fault.text
		if step.end {
			text = "end of " + text
		}
		order = append(order, text)
	}
	require.Equal(t, []string{"delay:1=1ms@0s", "stop:1@1s+2s", "end of stop:1@1s+2s", "stop:1@3s+1s",
		"end of stop:1@3s+1s", "kill:1@4s"}, order)
	require.Empty(t, faultSteps(faults, 2))
}
