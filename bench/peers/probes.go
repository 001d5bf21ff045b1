package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// probes are connections of our own to the nodes, one each, beside those of the libraries.
type probes []*redis.Client

// openProbes connects, so that no greeting falls into a measurement.
func openProbes(ctx context.Context, urls []string) (probes, error) {
	clients, err := newClients(urls, 1)
	if err != nil {
		return nil, err
	}
	for _, c := range clients {
		if err := c.Ping(ctx).Err(); err != nil {
			return nil, errors.Join(err, closeClients(clients))
		}
	}
	return clients, nil
}

func (p probes) close() error { return closeClients(p) }

// hold takes a key on every node for a stranger, who neither renews nor releases it.
func (p probes) hold(ctx context.Context, key string, ttl time.Duration) error {
	for _, c := range p {
		taken, err := c.SetNX(ctx, key, "stranger", ttl).Result()
		if err != nil {
			return err
		}
		if !taken {
			return fmt.Errorf("key %q exists", key)
		}
	}
	return nil
}

func (p probes) drop(ctx context.Context, key string) error {
	var errs []error
	for _, c := range p {
		errs = append(errs, c.Del(ctx, key).Err())
	}
	return errors.Join(errs...)
}

// cpuSeconds is the CPU time that all nodes have used.
func (p probes) cpuSeconds(ctx context.Context) (float64, error) {
	return p.add(ctx, "cpu", "used_cpu_sys", "used_cpu_user")
}

func (p probes) commands(ctx context.Context) (int, error) {
	n, err := p.add(ctx, "stats", "total_commands_processed")
	return int(n), err
}

// commandMeter counts commands from a moment on.
type commandMeter struct {
	probes probes
	before int
}

func (p probes) startCommands(ctx context.Context) (commandMeter, error) {
	before, err := p.commands(ctx)
	return commandMeter{p, before}, err
}

// executed leaves out our own INFO: a node counts a command after it has answered it, so that of the two asked of
// each node the first is in the difference, and the second is not.
func (m commandMeter) executed(ctx context.Context) (int, error) {
	after, err := m.probes.commands(ctx)
	return after - m.before - len(m.probes), err
}

// add adds up fields of INFO over all nodes.
func (p probes) add(ctx context.Context, section string, names ...string) (total float64, err error) {
	for _, c := range p {
		info, err := c.Info(ctx, section).Result()
		if err != nil {
			return 0, err
		}
		for _, name := range names {
			n, err := numberIn(info, name)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return total, nil
}

// numberIn finds a field in an answer to INFO.
func numberIn(info, name string) (float64, error) {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("no %s in the answer to info", name)
}
