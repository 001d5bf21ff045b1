// Package redlock holds locks on a quorum of independent Redis nodes (Redis, Valkey, or
// Memurai on Windows).
//
// # Model
//
// A Locker is made once for a set of nodes, with Open or New. An acquire sends
// SET key token NX PX ttl to all of them at once and is granted when a quorum, that is more than
// half of the configured nodes, has stored the token while enough of the ttl is left. The
// grant is a Lock: a handle that is held until it is lost or released, once, and that tells
// (Done, Err, Context) when it ends. What a failed attempt left on some nodes is deleted in the
// background. A crashed holder's key is free after its ttl. Who waits with Acquire gets the key about a
// round trip after it is free, in the order of arrival.
//
// # Promise
//
// As long as every node keeps a key for its ttl, by a clock whose rate is within the drift
// allowance, or loses it in a restart that the guard sees (WithRestartGuard), at most one holder
// of a key is inside its validity, whatever minority of the nodes is down, hung, slow or cut off;
// and a holder is told of its loss before anyone else can get the key. No call waits for a node
// longer than the node timeout.
//
// # Limits
//
// A holder that is paused after it last looked at its validity may act too late: no lock can
// prevent that. A node that forgets keys without a restart (FLUSHALL, eviction, a DEL by hand, a
// failover to a replica behind one address) can take part in a second grant: a lock that stands on a bare quorum is one such node
// away from it. Lock.Nodes tells on how many it stands; renewals give the token back to nodes
// that lost it. The lock is not re-entrant. A token proves ownership to the nodes; it does not
// grow, so it is no fence: WithFencing gives a lock a number with which the guarded resource can refuse late holders.
//
// # Words
//
// A node is one independent server. A quorum is N/2+1 of the configured ones. An attempt is one
// round over all of them. The ttl is the life of the key that the nodes are asked for; until
// and validity are the last instant at which the holder may act and the time left to it; drift is
// the allowance between the two.
package redlock
