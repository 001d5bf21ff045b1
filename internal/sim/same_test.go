package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheSameSeedIsTheSameRun compares the logs of seeds that are run twice.
func TestTheSameSeedIsTheSameRun(t *testing.T) {
	c := build(t, false)
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		if output, failed := c.run(envSeeds+"=50", envFrom+"=1001", envDir+"="+dirs[i]); failed {
			t.Fatal(output)
		}
	}
	files, err := filepath.Glob(filepath.Join(dirs[0], "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no logs", err)
	}
	for _, file := range files {
		first, again := canonical(read(t, file)), canonical(read(t, filepath.Join(dirs[1], filepath.Base(file))))
		if digest(first) != digest(again) {
			t.Errorf("seed %s is not the same run each time:\n%s", filepath.Base(file), difference(first, again))
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// difference shows where two logs part.
func difference(a, b string) string {
	first, again := strings.Split(a, "\n"), strings.Split(b, "\n")
	i := 0
	for i < min(len(first), len(again)) && first[i] == again[i] {
		i++
	}
	around := func(lines []string) string { return strings.Join(lines[max(0, i-5):min(len(lines), i+4)], "\n") }
	return "--- first\n" + around(first) + "\n--- again\n" + around(again)
}
