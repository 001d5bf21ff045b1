// Package redistest runs real redis-server processes found on PATH, for tests and for the benchmark tool.
//
// The servers listen on 127.0.0.1 alone, keep nothing on disk unless args say so, and can be paused, killed
// and restarted, with or without what they kept. StartSkewable gives them clocks that run wrong on demand,
// NewProxy puts a bad network in front of one. What was done to a server or a proxy is told by its String.
//
// Whoever starts them stops them; on Linux they also die with the process that started them, even
// where that one is killed or ends by os.Exit, as a test binary does at its time limit.
package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sync/errgroup"
)

// ErrNoServer is returned, wrapped, where there is no redis-server on PATH.
var ErrNoServer = errors.New("redistest: no redis-server on PATH (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)")

// requireServers is the environment variable that turns a skip for want of a redis-server into a failure.
const requireServers = "REDLOCK_REQUIRE_SERVERS"

// Start starts n servers in parallel and returns once every one answers, or after a few seconds with an
// error that carries what the server printed. After an error nothing is left running. The args are
// appended to each command line, so that they win over the defaults.
func Start(n int, args ...string) ([]*Server, error) {
	return start(n, false, args)
}

func start(n int, skewable bool, args []string) ([]*Server, error) {
	if n < 1 {
		return nil, fmt.Errorf("redistest: cannot start %d servers, at least 1", n)
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv(keeperAddress) == "" {
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	servers := make([]*Server, n)
	var group errgroup.Group
	for i := range servers {
		group.Go(func() error {
			server, err := startServer(binary, skewable, args)
			servers[i] = server
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, StopAll(servers))
	}
	return servers, nil
}

// StopAll stops every server, whatever the others answer, and joins their errors. Nil servers are left out.
func StopAll(servers []*Server) error {
	var errs []error
	for _, server := range servers {
		if server != nil {
			errs = append(errs, server.Stop())
		}
	}
	return errors.Join(errs...)
}

// ForTest starts n servers that are stopped when the test ends; if it failed, its log tells what was done to
// them. Without a redis-server on PATH it skips the test, or fails it where REDLOCK_REQUIRE_SERVERS=1.
func ForTest(tb testing.TB, n int, args ...string) []*Server {
	tb.Helper()
	servers, err := Start(n, args...)
	return forTest(tb, servers, err)
}

func forTest(tb testing.TB, servers []*Server, err error) []*Server {
	tb.Helper()
	if errors.Is(err, ErrNoServer) && os.Getenv(requireServers) != "1" {
		tb.Skipf("needs real servers: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for _, server := range servers {
				tb.Log(server)
			}
		}
		if err := StopAll(servers); err != nil {
			tb.Error(err)
		}
	})
	return servers
}

// PauseForTest is Pause for tests: it skips the test where servers cannot be paused, and a pause that
// fails fails the test.
func (s *Server) PauseForTest(tb testing.TB) {
	tb.Helper()
	if !CanPause() {
		tb.Skip("needs servers that can be paused, and Windows cannot")
	}
	if err := s.Pause(); err != nil {
		tb.Fatal(err)
	}
}

// URLs returns the servers' redis:// URLs in their order.
func URLs(servers []*Server) []string {
	urls := make([]string, len(servers))
	for i, server := range servers {
		urls[i] = server.URL()
	}
	return urls
}
