// Package node carries calls to one Redis server and brings back the answers. It keeps the queue,
// the connection, the breaker, and what the server is still owed.
//
// [Open] makes a node that writes and reads one connection independently, so that a call costs one
// round trip at any distance, however many others are under way. [Over] makes one over a client of
// somebody else, which carries several pipelines at a time.
//
// # Promises
//
//   - Calls about one key reach the server in the order in which they left the queue. Renewals and
//     releases leave it first.
//   - A call that nobody wants any more leaves the queue unsent. A queue holds no call for longer
//     than the node timeout: an acquire is refused at once where an older call has no answer.
//   - When a connection breaks, its calls are sent once more on the next one. An [Answer] says so
//     (Twice), since the first copy may have been executed.
//   - The server is blamed only for its own silence. All limits are measured by a [Pulse], which
//     stands still while this process does.
//   - What is owed ([Debt]) is sent until the server has answered, and once more after a node
//     timeout.
//   - Every new connection asks the server who it is before an answer counts as Known.
//
// It does not know what a vote is, what a token means, or that there are other nodes. Nothing waits
// for a node: Submit, Owe and Stop never block on the server.
//
//	n := node.Open(options, client, dialer)
//	group.Go(n.Run)
//	err := n.Ask([]any{"time"}, clock.Now(), func(reply wire.Value, err error) { … })
//	n.Stop()
//	<-n.Exited()
package node
