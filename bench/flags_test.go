package main

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDefaultsNeedNoFlags(t *testing.T) {
	s, err := parseFlags(nil)
	require.NoError(t, err)
	require.Equal(t, settings{callers: 1, keys: 1, duration: 3 * time.Second, ttl: 10 * time.Second}, s)
}

func TestFlagsAreTaken(t *testing.T) {
	s, err := parseFlags([]string{"-nodes", "redis://u:p@a:1/2, rediss://b", "-c", "3", "-keys", "2", "-ttl", "1s", "-d", "2m", "-json"})
	require.NoError(t, err)
	require.Equal(t, settings{
		urls: []string{"redis://u:p@a:1/2", "rediss://b"}, callers: 3, keys: 2,
		ttl: time.Second, duration: 2 * time.Minute, json: true,
	}, s)
	s, err = parseFlags([]string{"-spawn", "3", "-c", "5"})
	require.NoError(t, err)
	require.Equal(t, 3, s.spawn)
	require.Equal(t, 5, s.keys, "one per caller")
	_, err = parseFlags([]string{"-h"})
	require.ErrorIs(t, err, flag.ErrHelp)
}

func TestWrongFlagIsNamedWithWhatIsAccepted(t *testing.T) {
	for args, want := range map[string][]string{
		"-c 0":                          {"-c", "1 to 1024"},
		"-c 1025":                       {"-c", "1 to 1024"},
		"-c many":                       {"-c", "1 to 1024"},
		"-c":                            {"-c"},
		"-keys 0":                       {"-keys", "1 to 1000000"},
		"-spawn 0":                      {"-spawn", "1 to 31"},
		"-spawn 32":                     {"-spawn", "1 to 31"},
		"-d 3":                          {"-d", "10ms to 24h"},
		"-d 25h":                        {"-d", "10ms to 24h"},
		"-ttl 9ms":                      {"-ttl", "10ms to 24h"},
		"-json=7":                       {"-json", "true or false"},
		"-nodes a:1":                    {"-nodes", "number 1", "redis://host:port"},
		"-nodes redis://a,":             {"-nodes", "number 2"},
		"-nodes redis://a:99999":        {"-nodes", "number 1"},
		"-nodes redis://a/x":            {"-nodes", "number 1"},
		"-nodes unix:///s":              {"-nodes", "number 1"},
		"-nodes redis://a,rediss://a/1": {"-nodes", "1 and 2", "a:6379", "distinct"},
		"-nodes redis://a -spawn 3":     {"-nodes", "-spawn", "exclude"},
		"-nodes redis://a, redis://b":   {"argument 3", "without spaces"},
		"-threads 3":                    {"-threads"},
	} {
		_, err := parseFlags(strings.Fields(args))
		require.Error(t, err, args)
		for _, part := range want {
			require.ErrorContains(t, err, part, args)
		}
		require.NotContains(t, err.Error(), "\n", args)
	}
}

func TestFlagErrorsNeverShowAPassword(t *testing.T) {
	for _, args := range []string{
		"-nodes redis://u:s3cret@a:port",
		"-nodes redis://u:s3cret@a,redis://u:s3cret@a",
		"-nodes redis://u:s3cret@a, redis://u:s3cret@b",
		"-nodes http://u:s3cret@a",
		"-nodes redis://u:s3cret/@a",
		"-nodes redis://u:s3cret@a -spawn 2",
		"redis://u:s3cret@a",
	} {
		_, err := parseFlags(strings.Fields(args))
		require.Error(t, err, args)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestWarmUpIsNoLongerThanTheMeasurement(t *testing.T) {
	require.Equal(t, 300*time.Millisecond, settings{duration: time.Hour}.warmUp())
	require.Equal(t, 20*time.Millisecond, settings{duration: 20 * time.Millisecond}.warmUp())
}
