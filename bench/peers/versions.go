package main

import (
	"context"
	"runtime/debug"
	"strings"

	"github.com/redis/go-redis/v9"
)

var shownModules = []string{
	"github.com/redlock-go/redlock",
	"github.com/go-redsync/redsync/v4",
	"github.com/bsm/redislock",
	"github.com/redis/rueidis",
	"github.com/redis/go-redis/v9",
}

func moduleVersions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var versions []string
	for _, path := range shownModules {
		for _, module := range info.Deps {
			if module.Path == path {
				versions = append(versions, path+" "+versionOf(module))
			}
		}
	}
	return versions
}

func versionOf(module *debug.Module) string {
	if module.Replace != nil {
		return "(this working tree)"
	}
	return module.Version
}

func serverVersion(ctx context.Context, url string) (string, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return "", err
	}
	client := redis.NewClient(opts)
	defer client.Close()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	return versionIn(info), nil
}

// versionIn finds the version in an answer to INFO server. Valkey names its own beside the one of Redis it is
// compatible with.
func versionIn(info string) string {
	found := "(unknown version)"
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "valkey_version":
			return "valkey " + value
		case "redis_version":
			found = value
		}
	}
	return found
}
