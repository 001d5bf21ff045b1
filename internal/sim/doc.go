// Package sim runs the real library, through its public API, in thousands of small worlds full
// of faults, and checks what it promises against true time.
//
// # A run
//
// A seed stands for one run in a bubble of testing/synctest: 1, 3 or 5 nodes, 2 to 5 lockers
// with 1 to 4 actors each, 1 to 3 keys. Actors try and wait for locks, in some runs over two keys
// in any order, with all kinds of ctx, renew them by hand or automatically, hand them on to other
// lockers, release, overstay, forget, close their Locker, or die, also while others of the same
// Locker wait. Clients are go-redis clients over in-memory connections; in some runs they are tuned
// as Open does it, in others they ignore ctx and have long timeouts and retries of their own. In
// some, one locker spells the nodes' addresses in its own way and so goes through other gates
// than the others.
//
// What goes wrong (fault.go; faults print themselves): nodes hang and resume, and then execute
// what their sockets kept, also from connections that were closed; nodes crash, with a reset or
// in silence, and restart with or without memory; links become slow, or are cut off in one
// direction or both and bring later what they kept; single messages are lost, cut or delayed
// for seconds; subscriptions fall silent; connections break; script caches vanish. Nodes where
// somebody waits are hit more often. Machines of clients are suspended, and their times of day set, back and
// forth.
//
// # Clocks
//
// Every node and every locker has a clock with a rate of its own (clock.go; the overlay gives lockers theirs, see
// below). Each locker's differs from each node's by up to 1 %, so two lockers' may differ by nearly 2 %. Timers run by
// the time of the bubble, which is true time. So no locker's clock is faster than that; most are slower, and
// the nodes' are moved accordingly. A timer of a slow locker fires too early by its clock, and must be set again.
//
// CallsReturn allows for a slow clock where the library reads it: the wait limit of Acquire takes a locker whose
// clock is slower by r longer by 1/(1−r), that is 2 % at most, and 100 ns for timers that are set again. Rounds, renewals
// and releases end by timers and are allowed nothing. KeysEnd waits for plan.settling as the slowest clock
// sees it. No other rule needs an allowance.
//
// While a machine is suspended, nothing passes its links, and what they keep arrives afterwards. Its goroutines
// cannot be stopped here. But its monotonic clock stands still, and clock.At tells the library what it has
// missed. No allowance is made for that either.
//
// # Maintenance
//
// In a seventh of the seeds the run begins with a lock that is held while all nodes, or a quorum, are restarted
// without their data (service.go). Another locker asks for the key again and again: it was there before, or
// begins between two restarts, or after the last. It asks most often when the holder's validity comes to its end.
// Where it has known all nodes, they may tell no run_id any more, or refuse INFO, after their restart.
// (Nodes that tell nothing to somebody who never knew them are trusted, as is documented.)
//
// In the weather, too, all nodes may lose their data. With GuardAuto no two nodes start within plan.gap of each
// other, then or later: it takes nodes that were started together for a new deployment. A power cut is for
// GuardStrict, with which anything may happen. The same keeps a quorum from being started together, which is what
// GuardAuto would trust after 45 s without the others. (Nodes that are young from the start have lost nothing
// by that.) One node alone does not lose its data with GuardAuto.
//
// In three fifths of the seeds some lockers, or all, have clients whose connections cannot be counted (client.go).
//
// # Fences
//
// In two fifths of the seeds all lockers use fences. Their times of day are up to a second ahead of
// true time, before they are set. In half of these runs there is no restart
// guard, a minority of the nodes forgets or all may, and single locks are evicted: the lock itself
// can break, and OneHolder and LossIsTold are not judged, but numbers must grow. In more than half
// of them each locker is cut off from a minority of its own, so that grants come from bare quorums
// that differ. At the end of some runs more time passes than numbers live, and
// one locker's time of day is ahead by more than that (age.go).
//
// # Nodes
//
// A node is miniredis for the data, with SetTime before every command: keys expire by the
// node's own clock, to the nanosecond. Connections do not go through miniredis' sockets but
// call its Dispatch, so that a node executes one command after the other at the very instant at
// which the network delivers it. Lua runs the text that was loaded, in an interpreter that is
// kept: miniredis sets up a new one for each call, which takes most of a run's time. INFO
// server is answered here (info.go): run_id changes with each restart, uptime goes by the node's clock, and in
// some seeds there is no server_time_usec, as before Redis 7.
// Channels are kept here too, and a subscriber counts until its connection is seen to break.
//
// # The finale
//
// When the actors are done, the weather has cleared up and plan.settling is over, lockers wait for
// keys that were not used before, with nothing to disturb them (finale.go): one after the other,
// in a crowd of several callers each, behind one that has died. Here waiting must work and not
// only do no harm: a free key is taken within finale.limit (the longest back-off, two node
// timeouts and the round trips), half of all hand-overs take no longer than finale.usual (a
// wake-up and two round trips, so it is not the back-off that brings them about), and wake-ups go
// to those who wait, in the order in which they came. Grants need not be in that order: who tries
// just when the key is free is lucky. Where lockers disagree about the gate, only the limit holds.
// Some wait for longer than a waiting list lives. At last some give up, one is closed and one is
// cut off; a minute after all are closed no node has a waiting list.
//
// # Rules
//
// The checker knows nothing of the library's insides: it sees what callers see and what nodes
// execute. Its rules are the constants of type Rule. OneHolder is checked at every grant,
// which is enough, since a validity that is over is never prolonged. LossIsTold is checked at
// every grant too, and against the earlier moment at which a quorum of nodes had executed it.
// CallsReturn allows not a nanosecond more than the doc comments do, but for one round more that
// Acquire may take with fences. KeysEnd is checked once all faults are over, after the time that
// plan.settling derives; what it excuses stands there.
// RenewalHolds has a rule of its own because counting healed nodes leads to no second holder
// as long as nodes forget nothing that the guard does not see: it costs a margin, not safety.
// For a lock over two keys all rules hold for each; a renewal needs a quorum of nodes that have the
// token under both.
//
// FencesGrow compares each grant with those before it of the same key. It needs a larger fence than A
// had if no node had executed a command of its attempt when A came back to its caller, and if from
// then on one and the same quorum has kept A's number, or if no node has forgotten anything since
// A's attempt began. The checker reads the nodes' numbers after each command, and knows when they
// lose their data. A fence must not change, and a resumption must not lower it.
//
// A lock that was resumed goes on as the same holder, and it is the new handle that counts.
// RenewalHolds is for resumptions too, HeldIsKept is made for those that fail. Locks are handed on
// before they are renewed: what the network keeps of a renewal is beyond what the next locker can
// know of. So KeysEnd excuses locks that were resumed.
//
// KeyIsTaken, WakingWorks and InOrder are for the finale alone.
//
// # Same seed, same run
//
// The log of a run is the same each time. Everything that draws random numbers has a stream of
// its own, named by seed and part, and no two links, nor two connections of a link, deliver at
// the same instant, since goroutines that wake at one virtual instant run in random order. Some
// things in the library and in go-redis would spoil that, and are worked around:
//
//   - the library's jitter comes from math/rand/v2, which cannot be seeded. The tests run in a
//     child that was built with go test -overlay, where the library's files import the package
//     jitter of this directory instead: its numbers are a function of the virtual time and of
//     who waits. The library itself needs no hook for that.
//   - a worker yields before it takes what is queued, and gets more or less of what others have
//     for it at that instant. Under the overlay it gets all, and the workers go on one after
//     the other.
//   - a subscription and a worker may find out at one instant that a node is down, and dial at
//     one instant. Each has a lane of its own on a link, with random numbers of its own.
//   - a locker's clocks are those that package jitter keeps under its owner's name: the overlay does that too. It may
//     change any file of the module, by its path from the root.
//   - channels are random, and the lowest is the first of two that enter a waiting list at one
//     instant. So a node never tells the same TIME twice.
//   - a worker's deadline and its round's, and those of several workers, fall on the same
//     instant with the clients that Open makes. Here every client and every connection has one
//     that is a little earlier, by an amount of its own. So with tuned clients the worker is
//     always first; that the round is first, runs with untuned clients show.
//   - go-redis shares a pool of timers between all clients of a process, for callers that wait
//     for a connection. Pools here are so large that nobody does.
//
// Actors do nothing at the instant at which a call has come back to them, for the same reason.
// What is left to chance is the order of what happens at one instant, as when two callers are
// woken at once, each for a key of its own: logs are compared without it. In 600 seeds that
// were run twice, none differed otherwise.
//
// # Running it
//
//	go test ./internal/sim                                            300 seeds and the negative controls
//	go test -short ./internal/sim                                     without the controls
//	SIM_FROM=1000 SIM_SEEDS=5000 go test -count=1 -v -run TestSeeds ./internal/sim
//	SIM_FROM=319 SIM_SEEDS=1 SIM_LOG=1 go test -count=1 -v -run TestSeeds ./internal/sim    one run and its log
//	SIM_CONTROL='drift 0' SIM_FROM=6 SIM_SEEDS=1 …                   the same under a negative control
//	SIM_AMNESIA=0 …                                                   no node loses its data in a restart
//	SIM_GUARD=0 …                                                     without the restart guard
//
// A violation prints the log of its run and the command that repeats it. Negative controls
// (controls_test.go) are libraries with one line broken, in Go or Lua, made with the same
// -overlay; each must break its rule within 1,000 seeds. A control whose line is no longer there
// fails loudly.
package sim
