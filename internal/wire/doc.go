// Package wire knows the words between redlock and a server: the protocol, the arguments of each
// command, and what each reply means. It is pure: it keeps no connection, no time and no lock.
//
//   - Codec: [AppendCommand] and [AppendReply] write; [Reader] reads the replies of a server,
//     [ParseCommand] the commands of a client, and [Scanner] finds where either of them ends.
//   - Commands: [SetArgs], [AcquireArgs], [RenewArgs], [ReleaseArgs] and so on make the
//     arguments. Many releases become one command; [SplitReleases] splits its reply.
//   - Replies: [ReadSet], [ReadAcquire], [ReadRenewal] and [ReadRelease] say what a command did.
//
// # Promises
//
// Everything is read strictly. A reply of an unknown shape, an index out of range or a number that
// does not fit gives [Unknown], never a vote, and nothing is computed from it. No bytes of a server
// make the package panic, or allocate more than a constant beyond what it has been sent. "+OK", a
// null and an integer are read without an allocation.
//
// It does not know what a lock, a quorum or a node is, nor which commands wait for a reply.
//
//	b := wire.AppendCommand(nil, wire.SetArgs("orders", "me/x", time.Second))
//	_, _ = conn.Write(b)
//	reply, err := wire.NewReader(conn).Read()
//	if err == nil && wire.ReadSet(reply).Outcome == wire.Done {
//		// the key is ours
//	}
package wire
