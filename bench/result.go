package main

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// format is that of the documents of -json.
const format = 2

// result is all that the tool has to say; the table shows it and -json prints it as it stands.
type result struct {
	Tool        string      `json:"tool"`   // "redlock-bench"
	Format      int         `json:"format"` // of this document; grows when a field changes its meaning
	Started     time.Time   `json:"started"`
	Partial     bool        `json:"partial"` // interrupted before the duration was over
	Inputs      inputs      `json:"inputs"`
	Environment environment `json:"environment"`
	Quorum      int         `json:"quorum"`
	MeasuredMs  float64     `json:"measured_ms"` // from the end of the warm-up until the last caller was done
	Results     []opResult  `json:"results"`     // always the four: acquire, renew, release, full cycle
	Failures    []failed    `json:"failures"`    // one per operation and class that occurred
	Nodes       []node      `json:"nodes"`       // in the order they were given in
	Floor       *floor      `json:"floor"`       // null where no quorum of nodes answered or no lock was taken
	Timeline    []moment    `json:"timeline"`    // acquires by when they were to begin, from the end of the warm-up
	Faults      []faultSpan `json:"faults"`      // what was done to spawned nodes meanwhile
	Schedule    *starts     `json:"schedule"`    // null in a closed loop
	Contention  *contention `json:"contention"`  // null where callers do not contend
	Notes       []string    `json:"notes"`       // how to read the figures
}

type inputs struct {
	Nodes      string  `json:"nodes"`   // "embedded", "spawned" or "given"
	Loop       string  `json:"loop"`    // "closed": callers start again when they are done; "open": on schedule
	Rate       int     `json:"rate"`    // starts a second of the open loop, else 0
	WaitMs     float64 `json:"wait_ms"` // how long an acquire waits; 0: one attempt
	Contend    bool    `json:"contend"` // callers wait for keys that they share
	Lockers    int     `json:"lockers"`
	Callers    int     `json:"callers"`
	Keys       int     `json:"keys"`
	TTLMs      float64 `json:"ttl_ms"`
	HoldMs     float64 `json:"hold_ms"` // between the grant and the release; part of a full cycle
	Fencing    bool    `json:"fencing"` // each lock has a fence
	DurationMs float64 `json:"duration_ms"`
	WarmUpMs   float64 `json:"warm_up_ms"` // not counted in any figure
}

// moment is a short piece of the measured time. Counts are of acquires that were to begin in it.
type moment struct {
	FromMs   float64 `json:"from_ms"` // since the end of the warm-up
	ToMs     float64 `json:"to_ms"`
	Acquired int64   `json:"acquired"`
	Failed   int64   `json:"failed"`
	P50      float64 `json:"p50_us"` // of those that were granted; 0 without any
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
}

// faultSpan is one fault of -fault; a fault without an end lasts until the end.
type faultSpan struct {
	Fault  string  `json:"fault"` // as given, "stop:2@3s+2s"
	Node   string  `json:"node"`  // host:port
	FromMs float64 `json:"from_ms"`
	ToMs   float64 `json:"to_ms"`
	Error  string  `json:"error"` // why it could not be done; "" if it was
}

type environment struct {
	Go         string `json:"go"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	CPUs       int    `json:"cpus"`
	GOMAXPROCS int    `json:"gomaxprocs"`
}

// opResult is one operation where it went well.
type opResult struct {
	Operation string  `json:"operation"`
	PerSecond float64 `json:"per_second"`
	latencies
}

// failed is one operation where it went wrong in one way.
type failed struct {
	Operation string `json:"operation"`
	Class     string `json:"class"` // "held", "no quorum", "lost", "cancelled", "not started" or "other"
	latencies
	Example string `json:"example"` // the message of one of them
}

// latencies are in microseconds, to within 1 %. Without a count they are all 0.
type latencies struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

// node is one node and the round trip of a PING to it while the load ran.
type node struct {
	Node     string    `json:"node"`    // host:port
	Version  string    `json:"version"` // "unknown" where the node does not tell
	Ping     latencies `json:"ping"`
	Failures int64     `json:"failures"` // pings without an answer
	Error    string    `json:"error"`    // of the last one of these
	RTTMs    float64   `json:"rtt_ms"`   // that a proxy of -rtt adds, else 0
}

// floor is the round trip of the quorum-th fastest node: no acquire can be expected to take less.
type floor struct {
	Node  string  `json:"node"` // that one, host:port
	P50   float64 `json:"p50_us"`
	Over  float64 `json:"acquire_p50_over_us"` // by how much the p50 of acquire exceeds it
	Ratio float64 `json:"acquire_p50_ratio"`   // p50 of acquire / floor
}

func newResult(s settings, nodes *nodeSet, l *load, probed []*probe, partial bool) *result {
	measured := max(l.ended.Sub(l.from), 0)
	r := &result{
		Tool:    "redlock-bench",
		Format:  format,
		Started: l.start.UTC().Truncate(time.Millisecond),
		Partial: partial,
		Inputs: inputs{
			Nodes: nodes.kind, Loop: s.loop(), Rate: s.rate, WaitMs: millis(s.wait),
			Contend: s.contend, Lockers: max(s.lockers, 1), Callers: s.callers, Keys: s.keys,
			TTLMs: millis(s.ttl), HoldMs: millis(s.hold), Fencing: s.fencing, DurationMs: millis(s.duration), WarmUpMs: millis(s.warmUp()),
		},
		Environment: environment{
			Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
			CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		},
		Quorum:     len(probed)/2 + 1,
		MeasuredMs: millis(measured),
		Failures:   []failed{}, // [] in JSON, not null
		Timeline:   l.timeline(),
		Faults:     []faultSpan{},
	}
	r.Notes = notes(r.Inputs)
	total := l.total()
	r.addOperations(total, measured)
	if s.rate > 0 {
		r.Schedule = &total.starts
	}
	r.Contention = l.contention(total)
	for _, p := range probed {
		r.Nodes = append(r.Nodes, node{
			Node: p.addr, Version: p.version, Ping: latenciesOf(p.roundTrips), Failures: p.failures, Error: p.lastError,
		})
	}
	for i, spawned := range nodes.spawned {
		r.Nodes[i].RTTMs = millis(spawned.rtt)
	}
	r.Floor = floorOf(r.Nodes, r.Quorum, r.Results[acquire].latencies)
	return r
}

func notes(in inputs) []string {
	n := []string{
		"closed loop: a stalled caller measures one slow operation, not the ones it held up",
		"after an acquire that failed, a caller pauses for 0 to 10 ms",
	}
	if in.Loop == openLoop {
		n = []string{"open loop: acquire and full cycle count from the instant that the schedule had for them, " +
			"so that a stall shows in all that it held up; renew and release from their own start"}
	}
	if in.Contend {
		n = append(n, "hand-over: from the begin of a release to the return of the next acquire of that key, if this one "+
			"was waiting by then; callers do not renew")
	}
	if in.HoldMs > 0 {
		n = append(n, fmt.Sprintf("a caller holds each lock for %s before it releases it: a full cycle and its rate include that",
			milliText(in.HoldMs)))
	}
	if in.WaitMs > 0 {
		n = append(n, fmt.Sprintf("an acquire waits for up to %s until it has the lock, and fails then", milliText(in.WaitMs)))
	}
	n = append(n, "pings: one every 5 ms over a connection of its own to each node, while the load runs")
	if in.Nodes == "embedded" {
		n = append(n, "embedded nodes are slower than real servers, and share the CPU with the callers: "+
			"-spawn 5 or -nodes shows what a quorum costs")
	}
	return n
}

func (r *result) addOperations(total *recorder, measured time.Duration) {
	for o := range operations {
		op := opResult{Operation: o.String(), latencies: latenciesOf(total.successes[o])}
		if measured > 0 {
			op.PerSecond = tenths(float64(op.Count) / measured.Seconds())
		}
		r.Results = append(r.Results, op)
		for c, f := range total.failures[o] {
			if f != nil {
				r.Failures = append(r.Failures, failed{
					Operation: o.String(), Class: errorClass(c).String(),
					latencies: latenciesOf(f.latencies), Example: f.example,
				})
			}
		}
	}
}

// locks is the number of locks that were acquired.
func (r *result) locks() int64 { return r.Results[acquire].Count }

// failedCalls counts the calls of all operations that failed.
func (r *result) failedCalls() (n int64) {
	for _, f := range r.Failures {
		n += f.Count
	}
	return n
}

// firstFailure is the message of an acquire that failed, of the class that most of them fell into.
func (r *result) firstFailure() string {
	var most failed
	for _, f := range r.Failures {
		if f.Operation == acquire.String() && f.Count > most.Count {
			most = f
		}
	}
	return most.Example
}

// answering is the number of nodes that answered a ping.
func (r *result) answering() int {
	n := 0
	for _, node := range r.Nodes {
		if node.Ping.Count > 0 {
			n++
		}
	}
	return n
}

// floorOf takes the quorum-th smallest p50 among the nodes that answered: an acquire is granted by the
// fastest nodes that make up a quorum, and waits for the last of these.
func floorOf(nodes []node, quorum int, acquired latencies) *floor {
	var answering []node
	for _, n := range nodes {
		if n.Ping.Count > 0 {
			answering = append(answering, n)
		}
	}
	if len(answering) < quorum || acquired.Count == 0 {
		return nil
	}
	slices.SortStableFunc(answering, func(a, b node) int { return cmp.Compare(a.Ping.P50, b.Ping.P50) })
	last := answering[quorum-1]
	f := &floor{Node: last.Node, P50: last.Ping.P50}
	f.Over = tenths(acquired.P50 - f.P50)
	if f.P50 > 0 {
		f.Ratio = math.Round(100*acquired.P50/f.P50) / 100
	}
	return f
}

func latenciesOf(h *hdrhistogram.Histogram) latencies {
	if h.TotalCount() == 0 {
		return latencies{} // an empty histogram has a maximum above 0
	}
	at := func(percentile float64) float64 { return micros(h.ValueAtPercentile(percentile)) }
	return latencies{
		Count: h.TotalCount(),
		P50:   at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: micros(h.Max()),
	}
}

func micros(nanos int64) float64 { return tenths(float64(nanos) / 1e3) }

func millis(d time.Duration) float64 { return tenths(float64(d) / 1e6) }

func tenths(x float64) float64 { return math.Round(10*x) / 10 }
