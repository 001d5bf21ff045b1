package redlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

// A deployment asks whether the nodes are fit for locks before it goes on.
func ExampleLocker_Check() {
	nodes := startNodes(4)
	defer nodes.stop()
	locker, err := redlock.Open(nodes.urls, redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()

	report, err := locker.Check(context.Background())
	if err != nil {
		fmt.Println(err) // ctx ended, or the locker was closed
		return
	}
	for _, node := range report.Nodes { // node.Node is its host:port
		fmt.Println("a node of version", node.Version, "answers:", node.Err == nil)
	}
	critical := false
	for _, finding := range report.Findings { // the worst first
		critical = critical || finding.Severity == redlock.Critical
		if finding.Node == "" { // not about a single node
			fmt.Println(finding.Severity, finding.Code+":", finding.Text)
		}
	}
	fmt.Println("fit for locks:", !critical)

	// Output:
	// a node of version unknown answers: true
	// a node of version unknown answers: true
	// a node of version unknown answers: true
	// a node of version unknown answers: true
	// warning even-nodes: 4 nodes survive the failure of 1, no more than 3 would, and there is one more to fail; take one away or add one
	// fit for locks: true
}
