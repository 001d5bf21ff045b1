package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

// An operator asks who has a key and for how long, before anything is done about it. That changes
// nothing on the nodes; whether the key can be had, only an acquire tells.
func ExampleLocker_Inspect() {
	nodes := startNodes(3)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	ctx := context.Background()
	who := func(key string) {
		state, err := locker.Inspect(ctx, key)
		switch {
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println(key, "is a riddle; what is known of it:")
			for i, node := range state.Nodes { // node.Node is its host:port
				fmt.Println("  node", i+1, "token:", node.Token != "", "error:", node.Err != nil)
			}
		case err != nil:
			fmt.Println(err)
		case state.Held:
			fmt.Println(key, "is held by", state.Owner, "for", state.TTL.Round(time.Minute))
		default:
			fmt.Println(key, "is not known to be held")
		}
	}

	who("migration")
	lock, err := locker.TryAcquire(ctx, "migration", 5*time.Minute, redlock.Owner("worker-7"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Release(ctx)
	who("migration")

	for _, server := range nodes.servers[1:] {
		server.SetError("LOADING the data after a restart")
	}
	who("migration")

	// Output:
	// migration is not known to be held
	// migration is held by worker-7 for 5m0s
	// migration is a riddle; what is known of it:
	//   node 1 token: true error: false
	//   node 2 token: false error: true
	//   node 3 token: false error: true
}
