package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redlock-go/redlock"
)

// settings are what the nodes are, and how they are spoken to. Each is taken from its flag, else from
// the environment, else from the config file.
type settings struct {
	Nodes       []string      `yaml:"nodes"`
	Username    string        `yaml:"username"`
	Password    string        `yaml:"password"`
	Prefix      string        `yaml:"prefix"`
	NodeTimeout time.Duration `yaml:"node-timeout"`
	MaxTTL      time.Duration `yaml:"max-ttl"`

	source string // of the nodes, for errors
}

// nodeFlags are the flags that every command has.
type nodeFlags struct {
	set         *pflag.FlagSet
	nodes       string
	config      string
	prefix      string
	nodeTimeout time.Duration
	maxTTL      time.Duration
}

func (f *nodeFlags) register(flags *pflag.FlagSet) {
	f.set = flags
	flags.StringVar(&f.nodes, "nodes", "", "the nodes: host:port or URLs, separated by commas (else REDLOCK_NODES)")
	flags.StringVar(&f.config, "config", "", "the config `file` (else REDLOCK_CONFIG)")
	flags.StringVar(&f.prefix, "prefix", "", "what stands before every key on the nodes")
	flags.DurationVar(&f.nodeTimeout, "node-timeout", 0, "how long to wait for the nodes (default 200ms)")
	flags.DurationVar(&f.maxTTL, "max-ttl", 0, "the longest ttl in use on these nodes, where a key is locked with different ones")
}

func (a *app) settings() (settings, error) {
	s, err := a.readConfig()
	if err != nil {
		return s, err
	}
	if list := a.getenv("REDLOCK_NODES"); list != "" {
		s.Nodes, s.source = strings.Split(list, ","), "REDLOCK_NODES"
	}
	if a.nodes.nodes != "" {
		s.Nodes, s.source = strings.Split(a.nodes.nodes, ","), "--nodes"
	}
	if len(s.Nodes) == 0 {
		return s, wrongSettings(errors.New("no nodes given (--nodes host:port,host:port,host:port, REDLOCK_NODES, or a config file: redlock --help explains them)"))
	}
	if password := a.getenv("REDLOCK_PASSWORD"); password != "" { // the two belong together
		s.Username, s.Password = a.getenv("REDLOCK_USERNAME"), password
	}
	if a.nodes.set.Changed("prefix") { // to nothing, too
		s.Prefix = a.nodes.prefix
	}
	s.NodeTimeout = cmp.Or(a.nodes.nodeTimeout, s.NodeTimeout)
	s.MaxTTL = cmp.Or(a.nodes.maxTTL, s.MaxTTL)
	for i, node := range s.Nodes {
		if s.Nodes[i], err = s.url(strings.TrimSpace(node)); err != nil {
			return s, wrongSettings(fmt.Errorf("%s: number %d: %w", s.source, i+1, err))
		}
	}
	return s, nil
}

// url completes what stands for a node. What does not parse is left to the library, whose errors show
// nothing of it.
func (s settings) url(node string) (string, error) {
	if !strings.Contains(node, "://") {
		node = "redis://" + node
	}
	u, err := url.Parse(node)
	if err != nil {
		return node, nil
	}
	switch _, has := u.User.Password(); {
	case has && s.source == "--nodes":
		return "", errors.New("a password on the command line can be read by every user of the machine; " +
			"set REDLOCK_PASSWORD, or use REDLOCK_NODES or a config file")
	case !has && s.Password != "":
		u.User = url.UserPassword(cmp.Or(u.User.Username(), s.Username), s.Password)
	}
	return u.String(), nil
}

func (s settings) open(opts ...redlock.Option) (*redlock.Locker, error) {
	opts = append(opts, redlock.WithKeyPrefix(s.Prefix))
	if s.NodeTimeout != 0 {
		opts = append(opts, redlock.WithNodeTimeout(s.NodeTimeout))
	}
	if s.MaxTTL != 0 {
		opts = append(opts, redlock.WithMaxTTL(s.MaxTTL))
	}
	l, err := redlock.Open(s.Nodes, opts...)
	if err != nil {
		return nil, wrongSettings(fmt.Errorf("%s: %s", s.source, strings.TrimPrefix(err.Error(), "redlock: ")))
	}
	return l, nil
}
