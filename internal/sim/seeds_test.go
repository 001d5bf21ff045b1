package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// What the tests take from the environment. Children get all of it from their parent.
const (
	envSeeds   = "SIM_SEEDS"   // how many seeds to run
	envFrom    = "SIM_FROM"    // the first of them
	envLog     = "SIM_LOG"     // 1: print the log of every run
	envAmnesia = "SIM_AMNESIA" // 1: nodes may lose their data in restarts; 0: they do not
	envGuard   = "SIM_GUARD"   // 0: lockers do without the restart guard
	envControl = "SIM_CONTROL" // replay under this negative control

	envChild = "SIM_CHILD" // this is a child: the library is a copy with seeded jitter
	envShare = "SIM_SHARE" // i/n: run each n-th seed, from the i-th
	envWant  = "SIM_WANT"  // stop at the first violation of this rule, ignore others
	envDir   = "SIM_DIR"   // write the logs there
)

// usualSeeds is how many seeds a plain go test runs: a few seconds of them.
func usualSeeds() int {
	if raceEnabled {
		return 40
	}
	return 300
}

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{})
	os.Exit(m.Run())
}

// TestSeeds runs seeds, in children (see build); SIM_FROM=k SIM_SEEDS=n choose which.
func TestSeeds(t *testing.T) {
	if os.Getenv(envChild) == "" {
		c, err := findControl(os.Getenv(envControl))
		if err != nil {
			t.Fatal(err)
		}
		output, failed := build(t, raceEnabled, c.mutations...).run(c.environment...)
		t.Log(output)
		if failed {
			t.Error("the rules do not hold")
		}
		return
	}
	s := &seeds{want: Rule(os.Getenv(envWant)), begin: time.Now()}
	first, share, of := number(t, envFrom, 1), 0, 1
	_, _ = fmt.Sscanf(os.Getenv(envShare), "%d/%d", &share, &of)
	for seed := first + share; seed < first+number(t, envSeeds, usualSeeds()) && !t.Failed(); seed += of {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { s.run(t, seed) })
	}
	took := time.Since(s.begin)
	fmt.Printf("%d seeds, %.0f a second; %d grants in %v of virtual time\n",
		s.ran, float64(s.ran)/took.Seconds(), s.grants, s.lasted.Round(time.Second))
}

// seeds are the runs of one process.
type seeds struct {
	want   Rule
	begin  time.Time
	ran    int
	grants int
	lasted time.Duration
}

func (s *seeds) run(t *testing.T, seed int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Printf("seed %d: %v\n%s\n", seed, p, replay(seed))
			panic(p)
		}
	}()
	// A goroutine that waits for a mutex whose holder sleeps stops the virtual time.
	stuck := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("seed %d stands still\n%s", seed, replay(seed))) })
	defer stuck.Stop()
	synctest.Test(t, func(t *testing.T) { s.judge(t, seed, Run(uint64(seed), settings())) })
}

func settings() Settings {
	s := Settings{Amnesia: true, Guard: os.Getenv(envGuard) != "0"}
	if v := os.Getenv(envAmnesia); v != "" {
		s.Amnesia = v != "0"
	}
	return s
}

func (s *seeds) judge(t *testing.T, seed int, r *Result) {
	s.ran++
	s.grants += r.Grants
	s.lasted += r.Lasted
	if dir := os.Getenv(envDir); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(seed)), []byte(r.Log()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv(envLog) != "" {
		fmt.Print(r.Log())
	}
	for _, v := range r.Violations {
		if s.want != "" && s.want != v.Rule {
			continue
		}
		if s.want == "" && os.Getenv(envLog) == "" {
			fmt.Print(r.Log())
		}
		t.Fatalf("seed %d: %v\n%s", seed, v, replay(seed))
	}
}

// replay returns the command that repeats the run of a seed.
func replay(seed int) string {
	command := fmt.Sprintf("%s=%d %s=1 %s=1 ", envFrom, seed, envSeeds, envLog)
	for _, name := range []string{envAmnesia, envGuard, envControl} {
		if v := os.Getenv(name); v != "" {
			command += fmt.Sprintf("%s=%q ", name, v)
		}
	}
	return "replay: " + command + "go test -count=1 -v -run '^TestSeeds$' ./internal/sim"
}

func number(t *testing.T, name string, usual int) int {
	v := os.Getenv(name)
	if v == "" {
		return usual
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, v)
	}
	return n
}
