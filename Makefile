# .ci/run defines what is checked; these targets call it, or run what CI does not.

FUZZTIME ?= 30s
BENCH    ?= -spawn 5 -c 64 -d 10s
PEERS    ?=
SEEDS    ?= 10000
FOR      ?= 10m

.PHONY: check lint test race windows fuzz bench peers sim soak

# Everything that CI does.
check:
	@.ci/run

# gofmt, and go vet for this system and for Windows.
lint:
	@.ci/run lint

# Fast: without the race detector; tests that need redis-server are skipped where there is none.
test:
	go test ./...

# As CI runs the tests: real servers are required.
race:
	@.ci/run servers race

# All tests as Windows programs, under wine, on real servers of this machine.
windows:
	@scripts/test-windows

# Every fuzz test of the module, one after the other, FUZZTIME each.
fuzz:
	@set -e; go list ./... | while read -r package; do \
		for name in $$(go test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
			echo "== $$name in $$package"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" </dev/null; \
		done; \
	done

# The benchmark tool; BENCH holds its flags.
bench:
	go run ./bench $(BENCH)

# The comparison with other libraries; PEERS holds its flags.
peers:
	cd bench/peers && go run . $(PEERS)

# The simulator, over many seeds.
sim:
	SIM_SEEDS=$(SEEDS) go test -count=1 -timeout 0 -v -run '^TestSeeds$$' ./internal/sim

# Workers and faults on five real servers, for long.
soak:
	SOAK_FOR=$(FOR) REDLOCK_REQUIRE_SERVERS=1 go test -count=1 -timeout 0 -v -run '^TestSoak$$' .
