package sim

import (
	"fmt"
	"time"
)

// secrecy is what a node does not tell of itself any more, as behind a proxy, or with other rights.
type secrecy int

const (
	tellsAll secrecy = iota
	tellsNoRunID
	refusesInfo
	secrecies
)

// info answers INFO server, which miniredis does not have. A server reads its clock now and then; its uptime is
// the difference of two times of day in whole seconds.
func (n *node) info() any {
	age := n.clock.now().Sub(n.started)
	now := n.started.Add(age.Truncate(100 * time.Millisecond))
	text := fmt.Sprintf("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n", now.Unix()-n.started.Unix())
	if n.modern {
		text += fmt.Sprintf("server_time_usec:%d\r\n", now.UnixMicro())
	}
	switch n.secrecy {
	case tellsNoRunID:
		return text
	case refusesInfo:
		return failure("NOPERM this user has no permissions to run the 'info' command")
	}
	return text + fmt.Sprintf("run_id:%020x%020x\r\n", n.id+1, n.restarts+1)
}

// keepTo makes the node tell less from now on.
func (n *node) keepTo(s secrecy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.secrecy = s
}
