package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

// An order that is delivered twice is charged once. The worker that comes second while the
// first is at work gets ErrHeld and skips. The lock cannot know of a delivery that comes after
// its release, so the order's own record is looked up as well, under the lock.
func ExampleLocker_TryAcquire() {
	nodes := startNodes(3) // yours: redis://10.0.0.1:6379 and so on
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	charged := make(map[string]bool) // in your database
	handle := func(ctx context.Context, worker, order string, charge func()) error {
		lock, err := locker.TryAcquire(ctx, "order:"+order, 30*time.Second)
		if errors.Is(err, redlock.ErrHeld) {
			fmt.Println(worker, "skips: the order is in work")
			return nil
		}
		if err != nil {
			return err // no quorum of nodes answered: deliver the order again later
		}
		defer lock.Release(ctx)

		if charged[order] {
			fmt.Println(worker, "skips: the order is done")
			return nil
		}
		charge()
		charged[order] = true
		return nil
	}

	ctx := context.Background()
	err = handle(ctx, "first worker", "4711", func() {
		fmt.Println("first worker charges")
		if err := handle(ctx, "second worker", "4711", nil); err != nil { // delivered again meanwhile
			fmt.Println(err)
		}
	})
	if err == nil {
		err = handle(ctx, "third worker", "4711", nil) // and once more, later
	}
	if err != nil {
		fmt.Println(err)
	}

	// Output:
	// first worker charges
	// second worker skips: the order is in work
	// third worker skips: the order is done
}

// A job that every instance of a service starts by the same schedule runs once per period.
//
// The key names the job and the period. After a success the lock is not released: the key
// has to outlive the instance whose clock or scheduler is late, or that one would find it free
// and run the job again. So the ttl is longer than the job takes and than the instances are
// ever apart; the length of the period is a good choice. After a failure the lock is
// released, so that another instance may try; with a key for each period, the next period
// is free in any case.
//
// The instances come at the same moment, and may split the votes so that none of them has a
// quorum. Acquire goes on after such a tie; with TryAcquire the job might not run at all.
func ExampleLocker_Acquire_scheduledJob() {
	nodes := startNodes(3)
	defer nodes.stop()

	instance := func(ctx context.Context, job func() error) error {
		locker, err := redlock.Open(nodes.urls)
		if err != nil {
			return err
		}
		defer locker.Close() // leaves the key to its ttl

		lock, err := locker.Acquire(ctx, "report:2026-03-01", 24*time.Hour, redlock.Wait(500*time.Millisecond))
		if errors.Is(err, redlock.ErrHeld) {
			return nil // another instance has this period
		}
		if err != nil {
			return err
		}
		if err := job(); err != nil {
			return errors.Join(err, lock.Release(ctx))
		}
		return nil
	}

	reports := make(chan string, 3)
	var instances sync.WaitGroup
	for range 3 {
		instances.Go(func() {
			err := instance(context.Background(), func() error {
				reports <- "the report of the day"
				return nil
			})
			if err != nil {
				fmt.Println(err)
			}
		})
	}
	instances.Wait()
	close(reports)
	for report := range reports {
		fmt.Println(report)
	}

	// Output:
	// the report of the day
}

// A long job runs under a short ttl: Do renews the lock while the job runs. The job looks at
// its context between two steps, and stops when the service shuts down or the lock is lost.
// Either way Do releases.
func ExampleLocker_Do() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	ctx, shutDown := context.WithCancel(context.Background())
	defer shutDown()
	err = locker.Do(ctx, "import", 20*time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		for batch := 1; batch <= 1000; batch++ {
			if ctx.Err() != nil {
				return fmt.Errorf("stopped before batch %d: %w", batch, context.Cause(ctx))
			}
			fmt.Println("batch", batch)
			if batch == 2 {
				shutDown() // as a signal handler would
			}
		}
		return nil
	})
	fmt.Println(err)

	// The key is free again, long before its ttl.
	next, err := locker.TryAcquire(context.Background(), "import", 20*time.Second)
	fmt.Println("free again:", err == nil)
	if err == nil {
		_ = next.Release(context.Background())
	}

	// Output:
	// batch 1
	// batch 2
	// stopped before batch 3: context canceled
	// free again: true
}

// When a majority of the nodes fails, no renewal succeeds, and the job is told before
// anyone else can have the key: its context ends with ErrLost as the cause.
func ExampleLocker_Do_lost() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	err = locker.Do(context.Background(), "import", time.Second, func(ctx context.Context, _ *redlock.Lock) error {
		for _, server := range nodes.servers[:2] {
			server.SetError("LOADING the data after a restart")
		}
		<-ctx.Done()
		fmt.Println("stopped because of the loss:", errors.Is(context.Cause(ctx), redlock.ErrLost))
		return nil
	})
	fmt.Println("Do says so too:", errors.Is(err, redlock.ErrLost))

	// Output:
	// stopped because of the loss: true
	// Do says so too: true
}

// A lease that its holder renews by hand. Every renewal sets the ttl anew, and is true or false
// for the caller; after a false one, Err tells a loss from an outage.
func ExampleLock_Renew() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	ctx := context.Background()
	lock, err := locker.TryAcquire(ctx, "leader", 30*time.Second)
	if err != nil {
		fmt.Println("not the leader:", err)
		return
	}
	defer lock.Release(ctx)

	renew := func() bool { return lock.Renew(ctx, 30*time.Second) == nil }
	fmt.Println("renewed:", renew())

	// An operator deletes the key by hand, and somebody else takes it on two nodes.
	for _, server := range nodes.servers[:2] {
		_ = server.Set("leader", "somebody/else")
	}
	fmt.Println("renewed:", renew())
	if err := lock.Err(); err != nil {
		fmt.Println("lost:", errors.Is(err, redlock.ErrLost))
	} else {
		// Only an outage: the lock is held until lock.Until(), so renew again before that.
		fmt.Println("held for another", lock.Validity())
	}

	// Output:
	// renewed: true
	// renewed: false
	// lost: true
}

// Acquire waits for a held key until its context's deadline, or for the duration of Wait where
// there is none. When it gives up, the error says both that the key was held and that the
// context ended.
func ExampleLocker_Acquire() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	ctx := context.Background()
	first, err := locker.Acquire(ctx, "migration", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}

	impatient, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = locker.Acquire(impatient, "migration", 30*time.Second)
	fmt.Println("held:", errors.Is(err, redlock.ErrHeld))
	fmt.Println("out of time:", errors.Is(err, context.DeadlineExceeded))

	time.AfterFunc(50*time.Millisecond, func() { _ = first.Release(ctx) })
	second, err := locker.Acquire(ctx, "migration", 30*time.Second, redlock.Wait(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release(ctx)
	fmt.Println("acquired after the release")

	// Output:
	// held: true
	// out of time: true
	// acquired after the release
}

// errors.Is tells what to do, errors.As (here errors.AsType) what each node said. Two of these
// nodes are replicas by mistake.
func ExampleQuorumError() {
	nodes := startNodes(3)
	defer nodes.stop()
	for _, server := range nodes.servers[1:] {
		server.SetError("READONLY You can't write against a read only replica.")
	}
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	_, err = locker.TryAcquire(context.Background(), "orders", 10*time.Second)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		fmt.Println("somebody else is at it: skip")
	case errors.Is(err, redlock.ErrNoQuorum):
		fmt.Println("too few nodes: tell the operator")
	}
	if failure, ok := errors.AsType[*redlock.QuorumError](err); ok {
		fmt.Println("votes needed:", failure.Quorum, "failed:", failure.Failed)
		for i, node := range failure.Nodes { // node.Node is its host:port
			if answer, ok := errors.AsType[redis.Error](node.Err); ok { // it answered, but with an error
				fmt.Printf("node %d: %v\n", i+1, answer)
			}
		}
	}

	// Output:
	// too few nodes: tell the operator
	// votes needed: 2 failed: 2
	// node 2: READONLY You can't write against a read only replica.
	// node 3: READONLY You can't write against a read only replica.
}

// embedded nodes let the examples run without a server.
type embedded struct {
	servers []*miniredis.Miniredis
	urls    []string
}

func startNodes(n int) *embedded {
	e := new(embedded)
	for range n {
		server, err := miniredis.Run()
		if err != nil {
			panic(err)
		}
		server.ClockTTL(true) // keys expire by the clock, as they do on a real node
		e.servers = append(e.servers, server)
		e.urls = append(e.urls, "redis://"+server.Addr())
	}
	return e
}

func (e *embedded) stop() {
	for _, server := range e.servers {
		server.Close()
	}
}
