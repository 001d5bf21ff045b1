package redistest

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	pieceBytes  = 4096
	keptPieces  = 32          // per direction of a connection; what is beyond stays in the kernel
	dialTimeout = time.Minute // a server that is stopped may take long
)

// piece is some bytes in the order they came, or the end of them.
type piece struct {
	bytes []byte
	came  time.Time
	end   bool
}

// link is one proxied connection. Each direction has a reader, which keeps what comes, and a forwarder, which
// passes it on when the faults allow. It ends when the server has closed its side, as that does soon after it
// saw the client's end; or when it is cut.
type link struct {
	proxy  *Proxy
	client net.Conn
	server net.Conn // set before the goroutines that use it start
	kept   [2]chan piece
	ledger ledger
	done   chan struct{} // closed by close

	mu     sync.Mutex // guards closed, and server against close
	closed bool
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{
		proxy:  p,
		client: client,
		kept:   [2]chan piece{make(chan piece, keptPieces), make(chan piece, keptPieces)},
		done:   make(chan struct{}),
	}
}

func (l *link) run() {
	var rest sync.WaitGroup
	defer rest.Wait()
	rest.Go(func() { l.read(l.client, request) })
	// A proxy that hangs does not dial: what it found out would have to be kept from the client.
	if !l.mayPass(request, time.Time{}) {
		return
	}
	if !l.dial() {
		_ = l.client.(*net.TCPConn).SetLinger(0)
		l.close()
		return
	}
	rest.Go(func() { l.read(l.server, reply) })
	rest.Go(l.forwardReplies)
	l.forwardRequests()
}

func (l *link) dial() bool {
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(l.proxy.dialing, "tcp", l.proxy.target)
	if err != nil {
		l.proxy.history.note("server not reached: " + err.Error())
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// close cuts both connections; all the link's goroutines end.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

// read keeps what comes until the connection ends. It reads on while the link hangs, as far as there is room,
// since a client that closes with unread bytes on our side must find them kept.
func (l *link) read(from net.Conn, d direction) {
	buffer := make([]byte, pieceBytes)
	for {
		n, err := from.Read(buffer)
		came := time.Now()
		if n > 0 && !l.keep(d, piece{bytes: bytes.Clone(buffer[:n]), came: came}) {
			return
		}
		if err != nil {
			l.keep(d, piece{came: came, end: true})
			return
		}
	}
}

func (l *link) keep(d direction, p piece) bool {
	select {
	case l.kept[d] <- p:
		return true
	case <-l.done:
		return false
	}
}

// next waits for a piece, and until it may pass; false means that the link has been closed.
func (l *link) next(d direction) (piece, bool) {
	select {
	case p := <-l.kept[d]:
		return p, l.mayPass(d, p.came)
	case <-l.done:
		return piece{}, false
	}
}

// mayPass waits until what came at a given time may pass; false means that the link has been closed.
func (l *link) mayPass(d direction, came time.Time) bool {
	for {
		hang, delay, changed := l.proxy.look(d)
		left := time.Until(came.Add(delay))
		var due <-chan time.Time
		if !hang {
			if left <= 0 {
				return true
			}
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-l.done:
			return false
		}
	}
}

func (l *link) forwardRequests() {
	for {
		p, ok := l.next(request)
		if !ok {
			return
		}
		if p.end {
			// Only this way: the server is to carry out and answer what came before.
			_ = l.server.(*net.TCPConn).CloseWrite()
			return
		}
		pass, doomed := l.ledger.request(p.bytes, l.proxy.nextCut)
		_, err := l.server.Write(pass)
		if doomed {
			l.close()
			return
		}
		sealed, due := l.ledger.seal()
		if due {
			l.close()
		}
		if sealed || err != nil { // the replies' side sees the same error, and ends the link
			return
		}
	}
}

// forwardReplies ends the link with the server's end of it. A client that is gone does not: what it sent before
// may still be on the way to the server.
func (l *link) forwardReplies() {
	defer l.close()
	for gone := false; ; {
		p, ok := l.next(reply)
		if !ok || p.end {
			return
		}
		pass, due := l.ledger.reply(p.bytes, l.proxy.dropping)
		if len(pass) > 0 && !gone {
			_, err := l.client.Write(pass)
			gone = err != nil
		}
		if due {
			return
		}
	}
}
