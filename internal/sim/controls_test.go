package sim

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

// control is a way to break the library, and the rule that must notice.
type control struct {
	name        string
	rule        Rule
	mutations   []mutation
	environment []string
}

var controls = []control{
	{name: "drift 0", rule: OneHolder, mutations: []mutation{{
		"drift.go",
		"return start.Add(ttl - d.allowance(ttl))",
		"return start.Add(ttl)",
	}}},
	{name: "quorum N/2", rule: OneHolder, mutations: []mutation{{
		"quorum.go",
		"return nodes/2 + 1",
		"return max(1, nodes/2)",
	}}},
	{name: "start read after the answers", rule: OneHolder, mutations: []mutation{{
		"attempt.go",
		"k.drift.until(k.begun, r.ttl)",
		"k.drift.until(now, r.ttl)",
	}}},
	{name: "undo skipped", rule: KeysEnd, mutations: []mutation{{
		"attempt.go",
		"	r := k.prepare(&round{op: releaseOp",
		"	return nothing\n	r := k.prepare(&round{op: releaseOp",
	}}},
	{name: "debts not paid", rule: KeysEnd, mutations: []mutation{{
		"internal/node/ledger.go",
		"n.ledger.owe(",
		"func(Debt) {}(",
	}}},
	{name: "renewals count healed nodes", rule: RenewalHolds, mutations: []mutation{{
		"internal/wire/results.go",
		"return Result{Outcome: Healed}",
		"return Result{Outcome: Done}",
	}}},
	{name: "loss not signalled", rule: LossIsTold, mutations: []mutation{{
		"lock.go",
		"return max(0, next.Left(now))",
		"return time.Minute",
	}}},
	{name: "release waits for all it asked", rule: CallsReturn, mutations: []mutation{{
		"lock.go",
		"r.await(context.Background(), timeout)",
		"r.await(context.Background(), 100*timeout)",
	}}},
	{name: "guard window of a short ttl", rule: OneHolder, mutations: []mutation{{
		"guard.go",
		"longest := max(ttl, g.maxTTL)",
		"longest := ttl",
	}}},
	{name: "window without drift", rule: OneHolder, mutations: []mutation{{
		"guard.go",
		"return longest + 2*g.drift.allowance(longest)",
		"return longest",
	}}},
	{name: "all young is fresh", rule: OneHolder, mutations: []mutation{{
		"guard.go",
		"return true, !restarted && last.earliest.Since(first.started) <= startedTogether",
		"return true, !restarted",
	}}},
	{name: "guard behind an uncounted client", rule: OneHolder, mutations: []mutation{{
		"internal/node/pool.go",
		"known = p.node.trusted || p.whoIs()",
		"known = true",
	}}}, {name: "a node that stops telling its run_id counts", rule: OneHolder, mutations: []mutation{{
		"node.go",
		"if err != nil && (n.guard.identity(n.index).known || notNow(err)) {",
		"if err != nil && notNow(err) {",
	}, {
		"node.go",
		"return s.runID != \"\" || !n.guard.identity(n.index).known",
		"return true",
	}, {
		"guard.go",
		"	if n.silent {",
		"	if false {",
	}}}, {name: "release wakes nobody", rule: WakingWorks, mutations: []mutation{{
		"scripts.lua",
		"('ZPOPMIN', list)",
		"('ZCARD', list) and {}",
	}}},
	{name: "wake-ups are not heard", rule: WakingWorks, mutations: []mutation{{
		"listener.go",
		"s.wake(m.Payload)",
		"_ = m",
	}}},
	{name: "nothing but wake-ups", rule: KeyIsTaken, mutations: []mutation{{
		"wait.go",
		"delay = backoff(limit, limit, 0, random)",
		"delay = time.Hour",
	}}},
	{name: "lost locks keep their place", rule: KeyIsTaken, mutations: []mutation{{
		"lock.go",
		"ln.lose()",
		"_ = ln",
	}}},
	{name: "list without expiry", rule: WaitersLeave, mutations: []mutation{{
		"scripts.lua",
		"redis.pcall('PEXPIRE', ",
		"redis.pcall('EXISTS', ",
	}}},
	{name: "list without order", rule: InOrder, mutations: []mutation{{
		"scripts.lua",
		"'NX', since, ",
		"'NX', 0, ",
	}}},
	{name: "who releases stays in the list", rule: InOrder, mutations: []mutation{{
		"scripts.lua",
		"('ZREM', list, channel)",
		"('ZSCORE', list, channel)",
	}}},
	{name: "who gives up stays in the list", rule: InOrder, mutations: []mutation{{
		"line.go",
		"	if gate != noGate {\n		ln.lines.withdraw(",
		"	if gate < noGate {\n		ln.lines.withdraw(",
	}}},
	{name: "place not kept", rule: InOrder, mutations: []mutation{{
		"line.go",
		"ln.entered = e.answer.since",
		"ln.entered = 0",
	}}},
	{name: "numbers are not raised", rule: FencesGrow, mutations: []mutation{{
		"fence.go",
		"return stored >= k.quorum",
		"return true",
	}}},
	{name: "some number instead of the largest", rule: FencesGrow, mutations: []mutation{{
		"fence.go",
		"case s.fence > largest:",
		"case largest == 0:",
	}}},
	{name: "the proposal instead of a larger number", rule: FencesGrow, mutations: []mutation{{
		"scripts.lua",
		"number = stored + 1",
		"number = proposal",
	}}},
	{name: "numbers are not stored", rule: FencesGrow, mutations: []mutation{{
		"scripts.lua",
		"for i = n + 1, #keys do\n		call(",
		"for i = n + 1, n do\n		call(",
	}}},
	{name: "only the first of several keys is fenced", rule: FencesGrow, mutations: []mutation{{
		"scripts.lua",
		"for i = n + 1, #keys do\n		call(",
		"for i = n + 1, n + 1 do\n		call(",
	}}},
	{name: "a fence life without the clock's lead", rule: FencesGrow, mutations: []mutation{{
		"scripts.lua",
		"lead = math.max(0, number / 1000 - now[1] * 1000 - now[2] / 1000)",
		"lead = 0",
	}}},
	{name: "several keys are taken where some are free", rule: OneHolder, mutations: []mutation{{
		"scripts.lua",
		"for i = n, 1, -1 do",
		"for i = 1, 1 do",
	}}},
	{name: "renewals pass over keys that are missing", rule: RenewalHolds, mutations: []mutation{{
		"scripts.lua",
		"if missing then\n	return {2}",
		"if missing and not left then\n	return {2}",
	}}},
	{name: "a resumption that fails is undone", rule: HeldIsKept, mutations: []mutation{{
		"attempt.go",
		"	case r.verdict == lost && r.op == resumeOp:\n		k.ended = true\n		return nothing\n",
		"",
	}}},
	{name: "resumption where the token is missing", rule: RenewalHolds, mutations: []mutation{{
		"internal/wire/results.go",
		"	case numbers[0] == 3:\n		return Result{Outcome: Missing}",
		"	case numbers[0] == 3:\n		return Result{Outcome: Done}",
	}}},
	{name: "amnesia without a guard", rule: OneHolder, environment: []string{envAmnesia + "=1", envGuard + "=0"}},
}

func findControl(name string) (control, error) {
	if name == "" {
		return control{}, nil
	}
	for _, c := range controls {
		if c.name == name {
			return c, nil
		}
	}
	return control{}, fmt.Errorf("%s=%q: there is no such control", envControl, name)
}

const controlSeeds = "1000"

// TestBrokenLibrariesAreFoundOut proves that the simulator can fail: every way to break the
// library breaks its rule within 1,000 seeds.
func TestBrokenLibrariesAreFoundOut(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the library once for each control")
	}
	for _, c := range controls {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			child := build(t, false, c.mutations...)
			built := time.Since(begin)
			environment := append([]string{
				envSeeds + "=" + controlSeeds, envFrom + "=1", envWant + "=" + string(c.rule), envControl + "=" + c.name,
			}, c.environment...)
			output, failed := child.run(environment...)
			seed := regexp.MustCompile(`seed \d+: ` + string(c.rule) + `.*`).FindString(output)
			if !failed || seed == "" {
				t.Fatalf("no violation of %s in %s seeds\n%s", c.rule, controlSeeds, output)
			}
			t.Logf("%s (built in %.1fs, found in %.1fs)", seed, built.Seconds(), (time.Since(begin) - built).Seconds())
		})
	}
}
