package pawl_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/requirements.md maps what Pawl must do to the tests that hold it. Each row of its tables ends with one or more tests,
// "package/TestName" or "package/TestName/subtest", and all of these must be there: a test that is renamed or dropped takes
// its row along. What is left for later, in the last section, has no test.

const requirementsFile = "docs/requirements.md"

func TestRequirementsNameTests(t *testing.T) {
	rows := requirements(t)
	require.Greater(t, len(rows), 200, "the tables are not found")
	known := testIndex{}
	seen := map[string]int{}
	for _, r := range rows {
		where := fmt.Sprintf("%s:%d", requirementsFile, r.line)
		assert.NotEmpty(t, r.tests, "%s: no test", where)
		assert.Empty(t, seen[r.text], "%s: the same stands in line %d", where, seen[r.text])
		seen[r.text] = r.line
		for _, name := range r.tests {
			assert.NoError(t, known.find(name), where)
		}
	}
}

// The check itself.
func TestRequirementsCheck(t *testing.T) {
	known := testIndex{}
	for name, want := range map[string]string{
		"TestRequirementsCheck":                           "",
		"retrypolicy/TestDelay":                           "",
		"journal/sqlite/TestStore/append/tokens grow":     "", // by way of the suite that it imports
		"durable/TestMarksOverrideThePolicy/poison":       "",
		"durable/TestMarksOverrideThePolicy/no such mark": `no subtest "no such mark"`,
		"durable/TestNoSuchTest":                          "no such test",
		"durable/asError":                                 "is no test",
		"nowhere/TestDelay":                               "nowhere",
	} {
		err := known.find(name)
		if want == "" {
			assert.NoError(t, err)
		} else {
			assert.ErrorContains(t, err, want)
		}
	}
}

// requirement is a row of a table.
type requirement struct {
	line  int
	text  string
	tests []string
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// requirements reads the tables, up to the section on what is left for later.
func requirements(t *testing.T) []requirement {
	t.Helper()
	data, err := os.ReadFile(requirementsFile)
	require.NoError(t, err)
	var rows []requirement
	lines := strings.Split(string(data), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "## Left for later") {
			return rows
		}
		header := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || header {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, 2, "%s:%d", requirementsFile, i+1)
		r := requirement{line: i + 1, text: strings.TrimSpace(cells[0])}
		for _, m := range codeSpan.FindAllStringSubmatch(cells[1], -1) {
			r.tests = append(r.tests, m[1])
		}
		rows = append(rows, r)
	}
	require.Fail(t, "no section on what is left for later")
	return nil
}

// testIndex is what is known of the tests of a folder.
type testIndex map[string]*testFolder

type testFolder struct {
	tests map[string]*ast.File // where a test function stands
	names []string             // all string literals: the names of subtests are among them
}

var testFunction = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)(\P{Ll}|$)`)

// find reports what is wrong with the name of a test.
func (x testIndex) find(name string) error {
	parts := strings.Split(name, "/")
	at := slices.IndexFunc(parts, testFunction.MatchString)
	if at < 0 {
		return fmt.Errorf("%s: it is no test", name)
	}
	folder, err := x.folder(filepath.Join(parts[:at]...))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	file := folder.tests[parts[at]]
	if file == nil {
		return fmt.Errorf("%s: there is no such test", name)
	}
	for _, sub := range parts[at+1:] {
		if !slices.Contains(folder.names, sub) && !x.imported(file, sub) {
			return fmt.Errorf("%s: there is no subtest %q", name, sub)
		}
	}
	return nil
}

// imported reports whether a subtest is one of a suite that the file imports.
func (x testIndex) imported(file *ast.File, sub string) bool {
	return slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool {
		path, ours := strings.CutPrefix(strings.Trim(s.Path.Value, `"`), module+"/")
		if !ours {
			return false
		}
		folder, err := x.folder(path)
		return err == nil && slices.Contains(folder.names, sub)
	})
}

// folder reads all Go files of a folder, once.
func (x testIndex) folder(dir string) (*testFolder, error) {
	if f, ok := x[dir]; ok {
		return f, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there is no package in %q", dir)
	}
	f := &testFolder{tests: map[string]*ast.File{}}
	for _, path := range files {
		if err := f.read(path); err != nil {
			return nil, err
		}
	}
	x[dir] = f
	return f, nil
}

func (f *testFolder) read(path string) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		fn, is := d.(*ast.FuncDecl)
		if is && fn.Recv == nil && strings.HasSuffix(path, "_test.go") && testFunction.MatchString(fn.Name.Name) {
			f.tests[fn.Name.Name] = file
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		lit, is := n.(*ast.BasicLit)
		if is && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				f.names = append(f.names, s)
			}
		}
		return true
	})
	return nil
}
