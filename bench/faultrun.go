package main

import (
	"slices"
	"sync"
	"time"
)

// faultRun does the faults of a plan at their times. Each node has a goroutine of its own, since a restart
// takes a while, and does its faults in turn.
type faultRun struct {
	quit  chan struct{}
	group sync.WaitGroup
	nodes []*nodeFaults
}

// nodeFaults are the faults of one node. Its goroutine alone touches them until stop returns.
type nodeFaults struct {
	node  *spawnedNode
	from  time.Time
	steps []faultStep
	on    []*doneFault // begun and not over yet
	done  []*doneFault // all that were begun
}

// faultStep is the begin or the end of a fault.
type faultStep struct {
	fault fault
	end   bool
}

type doneFault struct {
	fault fault
	span  faultSpan
}

func (s faultStep) at() time.Duration {
	if s.end {
		return s.fault.at + s.fault.length
	}
	return s.fault.at
}

// startFaults begins to do the plan, whose times count from the given instant.
func startFaults(nodes *nodeSet, plan []fault, from time.Time) *faultRun {
	run := &faultRun{quit: make(chan struct{})}
	for i, node := range nodes.spawned {
		n := &nodeFaults{node: node, from: from, steps: faultSteps(plan, i)}
		if len(n.steps) > 0 {
			run.nodes = append(run.nodes, n)
			run.group.Go(func() { n.run(run.quit) })
		}
	}
	return run
}

// faultSteps is what happens to one node, in order. At one instant the end of a fault comes first.
func faultSteps(plan []fault, node int) []faultStep {
	var steps []faultStep
	for _, f := range plan {
		if f.node != node {
			continue
		}
		steps = append(steps, faultStep{fault: f})
		if f.length > 0 {
			steps = append(steps, faultStep{fault: f, end: true})
		}
	}
	slices.SortStableFunc(steps, func(a, b faultStep) int {
		switch {
		case a.at() != b.at():
			return int(a.at() - b.at())
		case a.end == b.end:
			return 0
		case a.end:
			return -1
		}
		return 1
	})
	return steps
}

// stop ends the faults that are on, so that every node that lives answers, and returns all that were begun
// with their actual times. Dead nodes stay dead.
func (run *faultRun) stop() []faultSpan {
	close(run.quit)
	run.group.Wait()
	spans := []faultSpan{}
	for _, n := range run.nodes {
		for _, d := range n.done {
			spans = append(spans, d.span)
		}
	}
	slices.SortStableFunc(spans, func(a, b faultSpan) int { return int(a.FromMs - b.FromMs) })
	return spans
}

func (n *nodeFaults) run(quit <-chan struct{}) {
	defer func() {
		for _, d := range n.on {
			n.end(d)
		}
	}()
	for _, step := range n.steps {
		timer := time.NewTimer(time.Until(n.from.Add(step.at())))
		select {
		case <-quit:
			timer.Stop()
			return
		case <-timer.C:
		}
		if step.end {
			n.over(func(f fault) bool { return f == step.fault })
			continue
		}
		n.begin(step.fault)
	}
	<-quit // what has no end lasts until the run's
}

func (n *nodeFaults) begin(f fault) {
	d := &doneFault{fault: f, span: faultSpan{Fault: f.text, Node: n.node.addr(), FromMs: n.since()}}
	n.done = append(n.done, d)
	err := n.node.begin(f)
	d.span.ToMs = n.since()
	switch {
	case err != nil:
		d.span.Error = err.Error()
	case f.verb == "restart":
		n.over(func(f fault) bool { return f.verb == "kill" })
	case f.verb != "cut":
		n.on = append(n.on, d)
	}
}

// over ends those of the faults that are on.
func (n *nodeFaults) over(which func(fault) bool) {
	n.on = slices.DeleteFunc(n.on, func(d *doneFault) bool {
		if !which(d.fault) {
			return false
		}
		n.end(d)
		return true
	})
}

func (n *nodeFaults) end(d *doneFault) {
	if err := n.node.end(d.fault); err != nil {
		d.span.Error = err.Error()
	}
	d.span.ToMs = n.since()
}

func (n *nodeFaults) since() float64 { return millis(time.Since(n.from)) }
