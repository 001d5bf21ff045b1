package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
)

const minReleaseTTL = 10 * time.Second

// release is one `redlock release`.
type release struct {
	app   *app
	key   string
	token string
	force bool
	yes   bool
	ttl   time.Duration // of the lock between its adoption and its release
}

func (a *app) releaseCommand() *cobra.Command {
	r := &release{app: a}
	c := &cobra.Command{
		Use:   "release KEY {--token T | --force}",
		Short: "Free a key whose holder cannot",
		Long: `Free a key whose holder cannot do it any more.

With --token, the lock is released if a quorum of the nodes holds this token. With --force,
whatever the nodes hold under the key at this moment is released, what stands on a minority of
them too. That takes the lock away from a holder that may be at work: it learns of it at its
next renewal, and until then somebody else may be at work too. --force asks first on a terminal;
elsewhere it needs --yes. A lock that is acquired anew in the meantime is never touched, since
every lock has a token of its own.

If too few nodes answer, the lock may be gone, or end sooner, on those that did.

Exit status: 0 when it was released; 1 when the key is not held, or not with this token, or the
answer was no; 69 when too few nodes answered.`,
		Example: `  sh:          redlock release lock:jobprocessor --token "$REDLOCK_TOKEN"
               redlock release lock:jobprocessor --force
  PowerShell:  redlock release lock:jobprocessor --token $env:REDLOCK_TOKEN
               redlock release lock:jobprocessor --force --yes`,
		Args: func(c *cobra.Command, args []string) error {
			if r.force == (r.token != "") {
				return usageError(c, "either --token or --force is needed")
			}
			return needKeys(1, 1)(c, args)
		},
		RunE: func(_ *cobra.Command, keys []string) error {
			r.key = keys[0]
			return a.withNodes(r.execute)
		},
	}
	flags := c.Flags()
	flags.StringVar(&r.token, "token", "", "release the lock with this token, and no other")
	flags.BoolVar(&r.force, "force", false, "release whatever the nodes hold")
	flags.BoolVar(&r.yes, "yes", false, "do not ask (with --force)")
	return c
}

func (r *release) execute(ctx context.Context, s settings, l *redlock.Locker) error {
	r.ttl = max(minReleaseTTL, 2*s.NodeTimeout) // the library takes none below the node timeout,
	if s.MaxTTL != 0 {                          // and none above the longest
		r.ttl = min(r.ttl, s.MaxTTL)
	}
	if !r.force {
		return r.releaseToken(ctx, l, r.token)
	}
	state, err := l.Inspect(ctx, r.key)
	if err != nil {
		return err
	}
	found := holdings(state)
	if len(found) == 0 {
		return r.nothing(state)
	}
	if err := r.confirm(ctx, state); err != nil {
		return err
	}
	var failed []error
	for _, h := range found { // one that has gone meanwhile keeps nobody from the others
		failed = append(failed, r.releaseHolding(ctx, s, l, h))
	}
	return errors.Join(failed...)
}

// holding is a token and the nodes that hold it, by their positions.
type holding struct {
	token string
	nodes []int
}

// holdings returns what the nodes hold, in the order in which they first have it.
func holdings(state *redlock.State) (found []holding) {
	for i, n := range state.Nodes {
		if n.Token == "" {
			continue
		}
		at := slices.IndexFunc(found, func(h holding) bool { return h.token == n.Token })
		if at < 0 {
			found = append(found, holding{token: n.Token})
			at = len(found) - 1
		}
		found[at].nodes = append(found[at].nodes, i)
	}
	return found
}

// releaseHolding releases a token from the nodes that hold it. Where they are no quorum of all, a Locker on
// them alone does it: the library adopts a lock on a quorum of its nodes only.
func (r *release) releaseHolding(ctx context.Context, s settings, l *redlock.Locker, h holding) error {
	if len(h.nodes) > len(s.Nodes)/2 {
		return r.releaseToken(ctx, l, h.token)
	}
	all := s.Nodes
	s.Nodes = nil
	for _, i := range h.nodes {
		s.Nodes = append(s.Nodes, all[i])
	}
	few, err := s.open()
	if err != nil {
		return err
	}
	defer func() { _ = few.Close() }()
	return r.releaseToken(ctx, few, h.token)
}

// releaseToken adopts a lock and releases it, so that who waits for it is woken.
func (r *release) releaseToken(ctx context.Context, l *redlock.Locker, token string) error {
	lock, err := l.Resume(ctx, r.key, token, r.ttl)
	if err == nil {
		err = lock.Release(ctx)
	}
	if errors.Is(err, redlock.ErrLost) {
		return &statusError{exitNo, fmt.Errorf("%q is not held with this token; redlock status tells with which", r.key)}
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(r.app.out, "released %s, held with %s\n", printable(r.key), printable(token))
	return err
}

// nothing is the answer where no node holds a token.
func (r *release) nothing(state *redlock.State) error {
	for _, n := range state.Nodes {
		if n.Err != nil {
			return &statusError{exitNo, fmt.Errorf("%q is not held; %s: %s", r.key, n.Node, printable(n.Err.Error()))}
		}
	}
	return &statusError{exitNo, fmt.Errorf("%q is not held", r.key)}
}

// confirm asks a person; an error means no, as ctx's end does.
func (r *release) confirm(ctx context.Context, state *redlock.State) error {
	if r.yes {
		return nil
	}
	if !r.app.asks {
		return wrongSettings(errors.New("nobody can be asked here; --force --yes releases without asking"))
	}
	if err := writeViews(r.app.err, []view{{state: state}}, true); err != nil {
		return err
	}
	fmt.Fprintf(r.app.err, "Release %s? Its holder may be at work. [y/N] ", printable(r.key))
	answer := make(chan string, 1)
	go func() { // it ends with the program, where nobody answers
		line, _ := bufio.NewReader(r.app.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(r.app.err)
		return ctx.Err()
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	}
	return &statusError{exitNo, errors.New("nothing was released")}
}
