package redistest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// clockProbe reads all clocks in turn until its input ends. It prints by how much, in nanoseconds, a reading ever
// was behind the one before: of any monotonic clock, and, as the wall clocks are to keep one distance to
// those, of any wall clock less that distance; and how far wall and monotonic clock got.
const clockProbe = `
#include <fcntl.h>
#include <stdio.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long get(clockid_t id) {
	struct timespec t;
	clock_gettime(id, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
	static const clockid_t monotonic[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME};
	static const clockid_t wall[] = {CLOCK_REALTIME, CLOCK_REALTIME_COARSE};
	long long start = get(CLOCK_MONOTONIC), last = start, back = 0, rounded = 0, slow = 0, readings = 0;
	long long distance = get(CLOCK_REALTIME) - start;
	long long spread = get(CLOCK_MONOTONIC) - start; /* that of distance */
	char byte;
	fcntl(0, F_SETFL, O_NONBLOCK);
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) != 0) {
		for (int i = 0; i < 4; i++, readings++) {
			long long now = get(monotonic[i]);
			if (last - now > back) back = last - now;
			last = now;
		}
		for (int i = 0; i < 2; i++, readings++) {
			long long now = get(wall[i]) - distance;
			if (last - now > slow) slow = last - now;
		}
		struct timeval tv;
		gettimeofday(&tv, NULL);
		long long micros = tv.tv_sec * 1000000LL + tv.tv_usec, seconds = time(NULL);
		if ((last + distance) / 1000 - micros > rounded) rounded = (last + distance) / 1000 - micros;
		if (seconds < tv.tv_sec) rounded = 1000000;
	}
	printf("{\"back\":%lld,\"slow\":%lld,\"rounded\":%lld,\"spread\":%lld,\"readings\":%lld,\"went\":%lld}\n",
		back, slow, rounded, spread, readings, last - start);
	return 0;
}
`

func TestClocksOfAProcessAgreeAndNeverGoBackWhateverTheRate(t *testing.T) {
	binary, err := compile([]byte(clockProbe))
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "probe")
	require.NoError(t, os.WriteFile(path, binary, 0o700))
	c, err := newClock()
	require.NoError(t, err)
	defer func() { require.NoError(t, c.close()) }()

	probe := exec.Command(path)
	probe.Env = c.environment()
	input, err := probe.StdinPipe()
	require.NoError(t, err)
	output, err := probe.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, probe.Start())
	ready := make([]byte, len("ready\n"))
	_, err = output.Read(ready)
	require.NoError(t, err)
	require.NoError(t, c.readBy(probe.Process.Pid))
	require.Error(t, c.readBy(probe.Process.Pid+1), "another process does not")

	begin := time.Now()
	for i := 0; time.Since(begin) < 150*time.Millisecond; i++ {
		c.set(0, []float64{0.01, 20, 1, 0.5}[i%4])
		time.Sleep(50 * time.Microsecond) // readers wait while it changes
	}
	c.set(0, maxRate)
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, input.Close())
	var rest bytes.Buffer
	_, err = rest.ReadFrom(output)
	require.NoError(t, err)
	require.NoError(t, probe.Wait())
	var seen struct{ Back, Slow, Rounded, Spread, Readings, Went int64 }
	require.NoError(t, json.Unmarshal(rest.Bytes(), &seen), rest.String())
	require.Greater(t, seen.Readings, int64(1000))
	require.Zero(t, seen.Back)
	require.LessOrEqual(t, seen.Slow, seen.Spread)
	require.LessOrEqual(t, seen.Rounded, seen.Spread/1000+1)
	require.Greater(t, time.Duration(seen.Went), 5*time.Second, "50 ms a thousand times, had it a core for itself")
}

func TestNoCompilerIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := compile(clockSource)
	require.ErrorIs(t, err, ErrNoCompiler)
}

func TestCompilerThatFailsIsQuoted(t *testing.T) {
	_, err := compile([]byte("no C at all"))
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	require.ErrorContains(t, err, "error:")
}
