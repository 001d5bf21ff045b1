package main

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/alicebob/miniredis/v2"
)

const embeddedCount = 5

// nodeSet is what the load runs on: nodes that are given, spawned or embedded.
type nodeSet struct {
	kind    string // "given", "spawned" or "embedded"
	urls    []string
	spawned []*spawnedNode // of our own, in the order of urls; else none

	stop func() error // takes down what was brought up; safe to call twice and from two goroutines
}

func openNodes(s settings) (*nodeSet, error) {
	switch {
	case len(s.urls) > 0:
		return &nodeSet{kind: "given", urls: s.urls, stop: func() error { return nil }}, nil
	case s.spawn > 0:
		return spawnNodes(s)
	}
	return embedNodes(cmp.Or(s.embed, embeddedCount))
}

func embedNodes(n int) (*nodeSet, error) {
	var servers []*miniredis.Miniredis
	stop := func() error {
		for _, server := range servers {
			server.Close()
		}
		return nil
	}
	set := &nodeSet{kind: "embedded", stop: stop}
	for range n {
		server, err := miniredis.Run()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("an embedded node: %w", err), stop())
		}
		server.ClockTTL(true) // without it a key lives for ever
		servers = append(servers, server)
		set.urls = append(set.urls, "redis://"+server.Addr())
	}
	return set, nil
}

// embeddedVersion names the embedded nodes, which have no INFO server to ask.
func embeddedVersion() string {
	const path = "github.com/alicebob/miniredis/v2"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == path {
				return "miniredis " + module.Version
			}
		}
	}
	return "miniredis"
}
