package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two test binaries ran: the second covers a block that the first does not.
const profile = `mode: set
example.org/m/graph/a.go:1.10,3.2 3 1
example.org/m/graph/a.go:4.10,6.2 1 0
example.org/m/graph/a.go:7.10,8.2 1 0
example.org/m/other/b.go:1.1,2.2 9 0
example.org/m/graph/a.go:1.10,3.2 3 0
example.org/m/graph/c.go:1.10,3.2 4 1
`

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.org/m\n")
	write(t, dir, "cover.out", profile)
	write(t, dir, "graph/a.go", "1\n2\n3\nif x {\n\tpanic(\"no\")\n}\n")

	for _, tt := range []struct {
		name   string
		floor  float64
		folder string
		want   string // text of the error, empty for none
	}{
		{"above the floor", 77, "graph", ""},
		{"below the floor", 78, "graph", "graph: 77.8 % of statements are covered: below the floor of 78 %"},
		{"unknown folder", 1, "gra", "gra: no statement in the profile"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := run(dir, tt.floor, filepath.Join(dir, "cover.out"), []string{tt.folder})
			if got := text(err); got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
			missing := "not covered: graph/a.go:4-8 (2): panic(\"no\")"
			if tt.folder == "graph" && !strings.Contains(out, missing) {
				t.Errorf("output lacks %q:\n%s", missing, out)
			}
		})
	}
}

func TestRunRefusesWhatIsNoProfile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.org/m\n")
	write(t, dir, "cover.out", "graph/a.go:1.10 3 1\n")
	_, err := run(dir, 1, filepath.Join(dir, "cover.out"), []string{"graph"})
	if err == nil || errors.Is(err, errBelow) || !strings.Contains(err.Error(), "is no line of a profile") {
		t.Errorf("error %v", err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func write(t *testing.T, dir, name, data string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}
