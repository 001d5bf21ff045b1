package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// maxLinks bounds the connections at one time, and so the memory: further ones wait in the kernel, where they
// are connected but unheard, as with a stopped server.
const maxLinks = 256

// Proxy is a TCP proxy on 127.0.0.1 in front of one server that speaks RESP in clear. Its faults are switched
// while it runs; one that is set reaches whatever is not yet being written. Where the server itself cannot be
// reached, connections are reset. All methods are safe for concurrent use and return at once, Close apart.
type Proxy struct {
	target   string
	listener net.Listener
	dialing  context.Context // ends at Close
	stop     context.CancelFunc
	slots    chan struct{} // holds one for each link
	running  sync.WaitGroup
	history  history

	mu      sync.Mutex // guards what follows
	faults  faults
	changed chan struct{} // closed and replaced when faults changes
	links   map[*link]struct{}
	dials   int
}

// NewProxy starts a proxy without faults in front of the server at target, host:port. It need not run yet.
func NewProxy(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("redistest: a proxy's target: %w", err)
	}
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return nil, fmt.Errorf("redistest: a proxy to %s: %w", target, err)
	}
	p := &Proxy{
		target:   target,
		listener: listener,
		slots:    make(chan struct{}, maxLinks),
		changed:  make(chan struct{}),
		links:    make(map[*link]struct{}),
	}
	p.dialing, p.stop = context.WithCancel(context.Background())
	p.history.note("start")
	p.running.Go(p.accept)
	return p, nil
}

// ProxyForTest starts a proxy that is closed when the test ends; if it failed, its log tells which faults
// there were.
func ProxyForTest(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := NewProxy(target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(p)
		}
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p
}

// Addr returns host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the redis:// URL.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Dials returns how many connections have come so far, refused ones too.
func (p *Proxy) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// String names the proxy and its server, its present faults, and those that were set and that struck.
func (p *Proxy) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprintf("proxy %s to %s: %v; %d dials; %v", p.Addr(), p.target, &p.faults, p.dials, &p.history)
}

// Close closes every connection, forgets what was kept, and waits for the proxy's goroutines. A second call
// does nothing.
func (p *Proxy) Close() error {
	p.stop()
	err := p.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	for _, l := range p.open() {
		l.close()
	}
	p.running.Wait()
	if err != nil {
		return fmt.Errorf("redistest: close proxy %s to %s: %w", p.Addr(), p.target, err)
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.dialing.Done():
			return
		}
		client, err := p.listener.Accept()
		if err == nil && p.admit(client) {
			continue
		}
		<-p.slots
		if err != nil {
			select {
			case <-time.After(pollEvery): // out of descriptors, most likely
			case <-p.dialing.Done():
				return
			}
		}
	}
}

// admit starts a link for a connection, or ends it: with a reset, as a plain end could pass for a server's.
func (p *Proxy) admit(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dials++
	if p.faults.refuse || p.dialing.Err() != nil { // closed: whoever closes may have been through the links already
		reset(client)
		return false
	}
	l := newLink(p, client)
	p.links[l] = struct{}{}
	p.running.Go(func() {
		l.run()
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
		<-p.slots
	})
	return true
}

func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

func (p *Proxy) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

// change changes the faults and wakes all who wait for that.
func (p *Proxy) change(event string, change func(*faults)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
	p.history.note(event)
}

// look returns what holds bytes back at present, and a channel that is closed when that changes.
func (p *Proxy) look(d direction) (hang bool, delay time.Duration, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.hang, p.faults.delay[d], p.changed
}

// nextCut takes the cut, if any, that is to strike the request at hand.
func (p *Proxy) nextCut() cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.faults.before.take():
		p.history.note("struck: cut before a request")
		return cutBefore
	case p.faults.after.take():
		p.history.note("struck: cut after a request")
		return cutAfter
	}
	return noCut
}

func (p *Proxy) dropping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.drop
}
