package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock/internal/redistest"
)

// spawnedNode is a redis-server of ours, behind a proxy where its round trip or a fault needs one.
type spawnedNode struct {
	server *redistest.Server
	proxy  *redistest.Proxy // nil where clients reach the server itself
	rtt    time.Duration    // that the proxy adds without any fault
	killed bool             // by a fault, and not restarted
}

func (n *spawnedNode) url() string {
	if n.proxy != nil {
		return n.proxy.URL()
	}
	return n.server.URL()
}

func (n *spawnedNode) addr() string {
	if n.proxy != nil {
		return n.proxy.Addr()
	}
	return n.server.Addr()
}

func spawnNodes(s settings) (*nodeSet, error) {
	servers, err := redistest.Start(s.spawn)
	if err != nil {
		return nil, fmt.Errorf("-spawn: %w", err)
	}
	set := &nodeSet{kind: "spawned"}
	set.stop = func() error {
		var errs []error
		for _, n := range set.spawned {
			if n.proxy != nil {
				errs = append(errs, n.proxy.Close())
			}
		}
		return errors.Join(append(errs, redistest.StopAll(servers))...)
	}
	for i, server := range servers {
		n := &spawnedNode{server: server}
		if s.rtts != nil {
			n.rtt = s.rtts[i]
		}
		set.spawned = append(set.spawned, n)
		if s.needsProxy(i) {
			if n.proxy, err = redistest.NewProxy(server.Addr()); err != nil {
				return nil, errors.Join(err, set.stop())
			}
			n.slow(n.rtt)
		}
		set.urls = append(set.urls, n.url())
	}
	return set, nil
}

// needsProxy spares the nodes without a fault of the network the proxy's own delay.
func (s settings) needsProxy(node int) bool {
	return s.rtts != nil || slices.ContainsFunc(s.faults, func(f fault) bool { return f.node == node && f.needsProxy() })
}

// slow makes the proxy hold back each way for half of a round trip.
func (n *spawnedNode) slow(rtt time.Duration) { n.proxy.Delay(rtt/2, rtt-rtt/2) }

// begin does what the fault says. It may take as long as a server takes to start.
func (n *spawnedNode) begin(f fault) error {
	switch f.verb {
	case "stop":
		return n.server.Pause()
	case "kill":
		n.killed = true
		return n.server.Kill()
	case "restart":
		n.killed = false
		return n.server.RestartEmpty()
	case "cut":
		return n.cut()
	case "hang":
		n.proxy.Hang()
	case "delay":
		n.slow(n.rtt + f.delay)
	}
	return nil
}

// end takes back what begin did, where the passing of time takes it back.
func (n *spawnedNode) end(f fault) error {
	switch f.verb {
	case "stop":
		return n.server.Resume()
	case "hang":
		n.proxy.Resume()
	case "delay":
		n.slow(n.rtt)
	}
	return nil
}

// cut ends all connections at once, idle ones and subscriptions too: the server itself does, as a proxy
// would only cut those on which a request comes. A proxy passes the end on.
func (n *spawnedNode) cut() error {
	options, err := probeOptions(n.server.URL())
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), pingLimit)
	defer cancel()
	for _, kind := range []string{"normal", "pubsub"} {
		if err := client.ClientKillByFilter(ctx, "TYPE", kind).Err(); err != nil {
			return fmt.Errorf("cut the connections of %s: %w", n.server.Addr(), err)
		}
	}
	return nil
}

// died names the servers that ended although no fault ended them.
func (set *nodeSet) died() error {
	var errs []error
	for _, n := range set.spawned {
		if !n.killed && n.server.PID() == 0 {
			errs = append(errs, fmt.Errorf("node %s ended during the run, and no fault of -fault did it: its server has crashed or was killed", n.addr()))
		}
	}
	return errors.Join(errs...)
}
