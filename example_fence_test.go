package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

// A holder that was paused longer than its lock lasted writes when another one has written already.
// The resource, here a hash in Redis, refuses it: it compares fences in the same step as it writes. In SQL
// this step is
//
//	UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?
//
// which changes no row for a stale holder.
func ExampleLock_Fence() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls, redlock.WithFencing())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	store := startNodes(1) // where the guarded data are; any store that can compare and write in one step
	defer store.stop()
	options, _ := redis.ParseURL(store.urls[0])
	data := redis.NewClient(options)
	defer data.Close()
	write := redis.NewScript(`
		local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
		if tonumber(ARGV[1]) < seen then
			return 'refused'
		end
		redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'balance', ARGV[2])
		return 'written'`)

	ctx := context.Background()
	late, err := locker.TryAcquire(ctx, "account:1", 300*time.Millisecond)
	if err != nil {
		fmt.Println(err)
		return
	}
	<-late.Done() // as if this process had been paused here, and did not know

	next, err := locker.Acquire(ctx, "account:1", 10*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer next.Release(ctx)
	fmt.Println("next holder:", write.Run(ctx, data, []string{"account:1"}, next.Fence(), 200).Val())
	fmt.Println("late holder:", write.Run(ctx, data, []string{"account:1"}, late.Fence(), 100).Val())
	fmt.Println("balance:", data.HGet(ctx, "account:1", "balance").Val())

	// Output:
	// next holder: written
	// late holder: refused
	// balance: 200
}

// A resource inside the service, such as a file that all its workers write, asks a FenceGuard.
func ExampleFenceGuard() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls, redlock.WithFencing())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	var guard redlock.FenceGuard
	ctx := context.Background()
	var locks []*redlock.Lock
	for range 2 {
		lock, err := locker.TryAcquire(ctx, "report.csv", 10*time.Second)
		if err != nil {
			fmt.Println(err)
			return
		}
		locks = append(locks, lock)
		lock.Release(ctx)
	}
	fmt.Println(guard.Admit("report.csv", locks[1].Fence()))
	fmt.Println(guard.Admit("report.csv", locks[0].Fence())) // came first, and is late
	// Output:
	// true
	// false
}

// Money goes from one account to another under one lock on both. In whatever order two transfers name
// the accounts, they never wait for each other for good.
func ExampleLocker_AcquireAll() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	balance := map[string]int{"anna": 10, "bert": 10}
	transfer := func(from, to string, amount int) error {
		lock, err := locker.AcquireAll(ctx, []string{"account:" + from, "account:" + to}, 10*time.Second)
		if err != nil {
			return err
		}
		defer lock.Release(ctx)
		balance[from] -= amount
		balance[to] += amount
		return nil
	}
	done := make(chan error)
	go func() { done <- transfer("anna", "bert", 3) }()
	go func() { done <- transfer("bert", "anna", 5) }()
	fmt.Println(<-done, <-done, balance["anna"], balance["bert"])
	// Output: <nil> <nil> 12 8
}

// A process that is about to be replaced passes its lock on: the token travels with the work. From then
// on the old process must not act, renew or release.
func ExampleLocker_Resume() {
	nodes := startNodes(3)
	defer nodes.stop()
	ctx := context.Background()
	old, err := redlock.Open(nodes.urls, redlock.WithOwner("worker:1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer old.Close()
	lock, err := old.TryAcquire(ctx, "migration", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	token := lock.Token() // goes to the new process, with what remains to be done

	successor, err := redlock.Open(nodes.urls, redlock.WithOwner("worker:2"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer successor.Close()
	lock, err = successor.Resume(ctx, "migration", token, 30*time.Second, redlock.AutoRenew())
	if err != nil {
		fmt.Println(err) // ErrLost: the lock ended on the way
		return
	}
	defer lock.Release(ctx)
	fmt.Println("held, acquired by", lock.Owner())
	// Output: held, acquired by worker:1
}
