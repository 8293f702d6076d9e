// Command coverage holds a floor under the test coverage of chosen packages and prints what is not covered.
//
//	go test -coverpkg=./graph/... -coverprofile=cover.out ./...
//	go -C tools run ./coverage -root .. -min 95 cover.out graph
//
// A statement counts as covered if any test covers it: a profile of several test binaries holds each block several
// times. It exits with 1 if a package is below the floor or not in the profile.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var errBelow = errors.New("below the floor")

func main() {
	root := flag.String("root", ".", "folder of the module that the profile is of")
	floor := flag.Float64("min", 95, "least coverage, in percent of statements")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: coverage [-root DIR] [-min PERCENT] PROFILE FOLDER...")
		os.Exit(2)
	}
	report, err := run(*root, *floor, flag.Arg(0), flag.Args()[1:])
	fmt.Print(report)
	if err != nil {
		fmt.Fprintln(os.Stderr, "coverage:", err)
		os.Exit(1)
	}
}

// run returns what is not covered of the packages in each folder, and an error if too much is.
func run(root string, floor float64, profile string, folders []string) (report string, err error) {
	module, err := modulePath(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	blocks, err := readProfile(profile, module)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, folder := range folders {
		err = errors.Join(err, judge(&out, root, floor, folder, blocks))
	}
	return out.String(), err
}

// judge writes what is not covered of the packages in a folder to out.
func judge(out *strings.Builder, root string, floor float64, folder string, blocks []block) error {
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b block) bool {
		return !strings.HasPrefix(b.file, folder+"/")
	})
	var total, covered int
	for _, b := range blocks {
		total += b.statements
		if b.covered {
			covered += b.statements
		}
	}
	if total == 0 {
		return fmt.Errorf("%s: no statement in the profile", folder)
	}
	percent := 100 * float64(covered) / float64(total)
	fmt.Fprintf(out, "%s: %.1f %% of %d statements (floor %g %%)\n", folder, percent, total, floor)
	for _, b := range gaps(blocks) {
		fmt.Fprintf(out, "\tnot covered: %s:%d-%d (%d): %s\n", b.file, b.from, b.to, b.statements, source(root, b))
	}
	if percent < floor {
		return fmt.Errorf("%s: %.1f %% of statements are covered: %w of %g %%", folder, percent, errBelow, floor)
	}
	return nil
}

// gaps returns the blocks that are not covered. Those with nothing covered between them are one.
func gaps(blocks []block) []block {
	var merged []block
	open := false // whether the last one can grow
	for _, b := range blocks {
		last := len(merged) - 1
		switch {
		case b.covered:
			open = false
		case open && merged[last].file == b.file:
			merged[last].to = max(merged[last].to, b.to)
			merged[last].statements += b.statements
		default:
			merged = append(merged, b)
			open = true
		}
	}
	return merged
}

// source returns the first statement's line of a block, as a reminder of what it is about.
func source(root string, b block) string {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.file)))
	if err != nil {
		return ""
	}
	lines := strings.Split(string(data), "\n")
	// A block starts at the brace that opens it; what it does stands behind that.
	for _, n := range []int{b.from + 1, b.from} {
		if n <= b.to && n <= len(lines) {
			return strings.TrimSpace(lines[n-1])
		}
	}
	return ""
}

func modulePath(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(path), nil
		}
	}
	return "", fmt.Errorf("%s: no module line", file)
}

// block is a stretch of statements that run together.
type block struct {
	file       string // below the module's root
	from, to   int    // lines
	statements int
	covered    bool
}

// readProfile returns the blocks of a profile, ordered by file and place, each once.
func readProfile(file, module string) ([]block, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var blocks []block
	index := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "mode:") {
			continue
		}
		where, b, err := parseLine(line, module)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if i, ok := index[where]; ok {
			blocks[i].covered = blocks[i].covered || b.covered
			continue
		}
		index[where] = len(blocks)
		blocks = append(blocks, b)
	}
	slices.SortStableFunc(blocks, func(a, b block) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.from - b.from
	})
	return blocks, nil
}

// parseLine reads "module/file.go:1.2,3.4 statements count".
func parseLine(line, module string) (where string, b block, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return "", b, fmt.Errorf("%q is no line of a profile", strings.TrimSpace(line))
	}
	where = fields[0]
	file, span, _ := strings.Cut(where, ":")
	b.file = strings.TrimPrefix(file, module+"/")
	var count, column int
	if _, err := fmt.Sscanf(span+" "+fields[1]+" "+fields[2], "%d.%d,%d.%d %d %d",
		&b.from, &column, &b.to, &column, &b.statements, &count); err != nil {
		return "", b, fmt.Errorf("%q is no line of a profile: %w", strings.TrimSpace(line), err)
	}
	b.covered = count > 0
	return where, b, nil
}
