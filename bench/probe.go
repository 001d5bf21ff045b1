package main

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	pingEvery = 5 * time.Millisecond // often enough for a p99; every 2 ms cost 4 % of the throughput at 256 callers
	pingLimit = time.Second
	pingHangs = 200 * time.Millisecond // the library's node timeout: a node this slow has no say in a lock
)

// unknown is the version of a node that does not tell it.
const unknown = "unknown"

// probes ping every node over a connection of its own while the load runs.
type probes struct {
	nodes  []*probe
	cancel context.CancelFunc
	group  sync.WaitGroup
}

// probe is one node as the pings see it. Its goroutine alone touches it until stop returns.
type probe struct {
	addr       string
	version    string // unknown where INFO does not say
	roundTrips *hdrhistogram.Histogram
	failures   int64
	lastError  string
}

// startProbes begins at once, so that the connections are open in time, and records from the given instant.
func startProbes(nodes *nodeSet, from time.Time) *probes {
	ctx, cancel := context.WithCancel(context.Background())
	p := &probes{cancel: cancel}
	for _, url := range nodes.urls {
		options, err := probeOptions(url)
		node := &probe{version: unknown, roundTrips: newHistogram()}
		p.nodes = append(p.nodes, node)
		if err != nil {
			node.lastError = "not a node's URL"
			continue
		}
		node.addr = options.Addr
		if nodes.kind == "embedded" {
			node.version = embeddedVersion()
		}
		p.group.Go(func() { node.run(ctx, redis.NewClient(options), from) })
	}
	return p
}

// stop ends the pings, waits for them and leaves the nodes' figures final.
func (p *probes) stop() {
	p.cancel()
	p.group.Wait()
}

func probeOptions(url string) (*redis.Options, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.PoolSize = 1
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DialTimeout = pingLimit
	options.ReadTimeout = pingLimit
	options.WriteTimeout = pingLimit
	options.Protocol = 2
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return options, nil
}

func (p *probe) run(ctx context.Context, client *redis.Client, from time.Time) {
	defer client.Close()
	// A cancelled ctx does not end a read of go-redis; a closed client does.
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for identified := p.version != unknown; ; {
		answered := p.ping(ctx, client, from)
		if answered && !identified {
			identified = true // asked once: where INFO is not allowed it will not be later
			p.identify(ctx, client)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ping reports whether the node answered. A ping that the end of the run cuts short is a failure only if
// the node was hanging by then, or had not answered any.
func (p *probe) ping(ctx context.Context, client *redis.Client, from time.Time) bool {
	start := time.Now()
	err := client.Ping(ctx).Err()
	end := time.Now()
	took := end.Sub(start)
	switch {
	case err == nil && !start.Before(from):
		record(p.roundTrips, took)
	case err == nil || end.Before(from):
	case ctx.Err() == nil:
		p.failures++
		p.lastError = err.Error()
	case took >= pingHangs || p.roundTrips.TotalCount()+p.failures == 0:
		p.failures++
		p.lastError = "no answer within " + milliText(millis(took))
	}
	return err == nil
}

func (p *probe) identify(ctx context.Context, client *redis.Client) {
	if info, err := client.Info(ctx, "server").Result(); err == nil {
		p.version = versionOf(info)
	}
}

// versionOf finds the server's name and version in the text of INFO. Forks also give the version of Redis
// that they are compatible with, so their own line comes first.
func versionOf(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	for _, known := range []struct{ field, name string }{
		{"valkey_version", "Valkey"},
		{"memurai_version", "Memurai"},
		{"redis_version", "Redis"},
	} {
		if version := fields[known.field]; version != "" {
			return known.name + " " + version
		}
	}
	return unknown
}
