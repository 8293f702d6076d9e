package pawl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/pawl-go/pawl"

// layer says what the packages of one folder may import, tests aside: a test may use anything.
type layer struct {
	folder string // the folder and all below it that have no row of their own
	// ours is which other packages of ours they may import: none, below (any row further up in this table), or these.
	ours []string
	// never is what they must not reach even through others.
	never []string
	// modules is which modules outside the standard library they may import: none, some, or any.
	modules []string
	// store is true where a database driver may be reached.
	store bool
}

var (
	none  = []string{}
	below = []string{"*"}
	anyOf = []string{"*"}
)

const (
	goOpenAI  = "github.com/sashabaranov/go-openai"
	gobreaker = "github.com/sony/gobreaker/v2"
	goleak    = "go.uber.org/goleak"
	schema    = "github.com/google/jsonschema-go"
	testify   = "github.com/stretchr/testify"
	xTime     = "golang.org/x/time"
)

// layers is the table: a package may import what stands above its row, and nothing that stands below it. It is the
// table of CONTRIBUTING.md, read upwards.
var layers = []layer{
	{folder: ".", ours: none, modules: none},
	{folder: "task", ours: none, modules: none},
	{folder: "classifier", ours: []string{"task"}, modules: []string{goOpenAI, gobreaker}},
	{folder: "retrypolicy", ours: below, modules: none},
	{folder: "journal", ours: none, modules: none},
	{folder: "journal/journaltest", ours: []string{"journal"}, modules: []string{testify, goleak}},
	{folder: "journal/sqlite", ours: []string{"journal"}, modules: anyOf, store: true},
	{folder: "journal/postgres", ours: []string{"journal"}, modules: anyOf, store: true},
	{folder: "providers", ours: below, modules: []string{goOpenAI, gobreaker, xTime}},
	{folder: "providers/providertest", ours: below, modules: []string{goOpenAI, testify, goleak}},
	{folder: "graph", ours: below, never: []string{"providers"}, modules: none},
	{folder: "durable", ours: below, never: []string{"providers"}, modules: []string{schema}},
	{folder: "superstep", ours: below, never: []string{"providers"}, modules: none},
	{folder: "nodes", ours: below, modules: []string{goOpenAI}},
	{folder: "client", ours: below, modules: none},
	{folder: "worker", ours: below, modules: none},
	{folder: "inspector", ours: below, modules: none},
	{folder: "cmd", ours: below, modules: anyOf, store: true},
	{folder: "examples", ours: below, modules: anyOf, store: true},
}

// drivers are modules that speak to a database. Any package below one of these paths counts.
var drivers = []string{
	"github.com/jackc/pgx", "github.com/lib/pq", "github.com/mattn/go-sqlite3", "github.com/ncruces/go-sqlite3",
	"github.com/go-sql-driver/mysql", "modernc.org/sqlite", "zombiezen.com/go/sqlite",
}

// What importing graph and superstep may cost a user, in packages outside the standard library and this module:
// go-openai, its internal package, and gobreaker, for their error types, and jsonschema, which has no dependency of its own, for
// the answers that durable.Interrupt takes.
const maxForeign = 4

func TestEveryPackageHasARow(t *testing.T) {
	for _, p := range load(t).ours() {
		_, ok := rowOf(p.folder())
		assert.True(t, ok, "package %s has no row in the table of deps_test.go: add its folder where it belongs (it may "+
			"import what stands above it), and to the table in CONTRIBUTING.md", p.ImportPath)
	}
}

func TestImportsPointDownwards(t *testing.T) {
	for _, p := range load(t).known() {
		at, _ := rowOf(p.folder())
		for _, path := range p.Imports {
			if to, ok := folderOf(path); ok {
				assert.NoError(t, mayImport(at, to), "%s imports %s", p.ImportPath, path)
			}
		}
	}
}

func TestPackagesReachNothingForbidden(t *testing.T) {
	all := load(t)
	for _, p := range all.known() {
		at, _ := rowOf(p.folder())
		for _, dep := range all.reach(p.ImportPath) {
			folder, ok := folderOf(dep)
			if !ok {
				continue
			}
			assert.NotContains(t, layers[at].never, top(folder),
				"%s reaches %s: the two meet in package nodes and through package task; %s",
				p.ImportPath, dep, "`go mod why` shows by which imports")
		}
	}
}

func TestForeignModulesAreDeclared(t *testing.T) {
	all := load(t)
	for _, p := range all.known() {
		at, _ := rowOf(p.folder())
		for _, path := range p.Imports {
			dep := all[path]
			if dep == nil || dep.Standard || dep.ours() || slices.Equal(layers[at].modules, anyOf) {
				continue
			}
			assert.Contains(t, layers[at].modules, dep.Module.Path, "%s imports %s: do without, or add the module to its "+
				"row in deps_test.go and say in docs/design.md why its weight is worth it", p.ImportPath, path)
		}
	}
}

func TestOnlyStoresReachADatabaseDriver(t *testing.T) {
	all := load(t)
	for _, p := range all.known() {
		at, _ := rowOf(p.folder())
		if layers[at].store {
			continue
		}
		for _, dep := range all.reach(p.ImportPath) {
			isDriver := slices.ContainsFunc(drivers, func(d string) bool { return within(dep, d) })
			assert.False(t, isDriver, "%s reaches the database driver %s: take a journal.Store as an argument instead",
				p.ImportPath, dep)
		}
	}
}

func TestWeightOfAnImport(t *testing.T) {
	all := load(t)
	foreign := map[string]bool{}
	for _, folder := range []string{"graph", "superstep"} {
		require.NotNil(t, all[module+"/"+folder], "there is no package %s", folder)
		for _, path := range all.reach(module + "/" + folder) {
			if dep := all[path]; dep != nil && !dep.Standard && !dep.ours() {
				foreign[path] = true
			}
		}
	}
	t.Logf("graph and superstep import %d packages outside the standard library: %q", len(foreign), slices.Sorted(maps.Keys(foreign)))
	assert.LessOrEqual(t, len(foreign), maxForeign, "graph and superstep have grown heavier: %q", slices.Sorted(maps.Keys(foreign)))
}

// The rules themselves, on imports that do not exist.
func TestMayImport(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		ok       bool
	}{
		{"classifier", "task", true},
		{"task", "classifier", false},
		{"superstep", "graph", true},
		{"graph", "superstep", false},
		{"superstep", "providers/openai", false},
		{"graph", "providers", false},
		{"providers", "graph", false},
		{"providers/openai", "providers", true},
		{"providers/providertest", "providers/scripted", true},
		{"journal", "task", false},
		{"journal/sqlite", "journal", true},
		{"journal/memory", "journal", true},
		{"journal/sqlite", "task", false},
		{"examples/agents/research", "nodes", true},
		{"nodes", "unheard", false},
	} {
		at, ok := rowOf(tt.from)
		require.True(t, ok, tt.from)
		err := mayImport(at, tt.to)
		assert.Equal(t, tt.ok, err == nil, "%s imports %s: %v", tt.from, tt.to, err)
	}
}

// mayImport reports why the packages of a row must not import a folder of ours.
func mayImport(at int, to string) error {
	from := layers[at]
	target, ok := rowOf(to)
	switch {
	case !ok:
		return fmt.Errorf("%s has no row in the table of deps_test.go", to)
	case slices.Contains(from.never, top(to)):
		return fmt.Errorf("%s must not know %s: let them meet in package nodes or through package task", from.folder, top(to))
	case top(from.folder) == top(to):
		return nil // parts of one thing; the compiler refuses cycles
	case slices.Equal(from.ours, below) && target < at:
		return nil
	case slices.Contains(from.ours, top(to)):
		return nil
	case target > at:
		return fmt.Errorf("imports point downwards only and %s is above %s: turn the import around, or move what both "+
			"need into a package below them", to, from.folder)
	default:
		return fmt.Errorf("%s may import of ours only %q", from.folder, from.ours)
	}
}

// rowOf returns the row of a folder: its own, or that of the nearest folder above it.
func rowOf(folder string) (int, bool) {
	best := -1
	for i, l := range layers {
		if within(folder, l.folder) && (best < 0 || len(l.folder) > len(layers[best].folder)) {
			best = i
		}
	}
	return best, best >= 0
}

// within reports whether path is dir or stands below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// top returns the first part of a folder.
func top(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

// folderOf returns the folder of a package of ours, "." for the root's.
func folderOf(path string) (folder string, ours bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// listed is a package as "go list" prints it.
type listed struct {
	ImportPath string
	Name       string
	Export     string // file with the types of what the package exports, where it was asked for
	Standard   bool
	Imports    []string
	Module     *struct{ Path string }
}

func (p *listed) folder() string {
	folder, _ := folderOf(p.ImportPath)
	return folder
}

func (p *listed) ours() bool {
	_, ok := folderOf(p.ImportPath)
	return ok
}

// listing is packages by path.
type listing map[string]*listed

// load asks the go command for all packages of this module and what they depend on.
func load(t *testing.T) listing {
	t.Helper()
	return goList(t, "-deps", "./...")
}

func goList(t *testing.T, args ...string) listing {
	t.Helper()
	args = append([]string{"list", "-json=ImportPath,Name,Export,Standard,Imports,Module"}, args...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s: %s", cmd, &stderr)
	all := listing{}
	for in := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		err := in.Decode(p) //nolint:musttag // the go command writes Go names
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all[p.ImportPath] = p
	}
}

// ours returns this module's packages in order.
func (all listing) ours() []*listed {
	var ours []*listed
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if all[path].ours() {
			ours = append(ours, all[path])
		}
	}
	return ours
}

// known returns this module's packages that have a row in the table; TestEveryPackageHasARow names the others.
func (all listing) known() []*listed {
	return slices.DeleteFunc(all.ours(), func(p *listed) bool {
		_, ok := rowOf(p.folder())
		return !ok
	})
}

// reach returns all that a package depends on, in order.
func (all listing) reach(path string) []string {
	seen := map[string]bool{}
	for todo := []string{path}; len(todo) > 0; {
		p := all[todo[0]]
		todo = todo[1:]
		if p == nil || p.Standard {
			continue // the standard library imports nothing but itself
		}
		for _, dep := range p.Imports {
			if !seen[dep] {
				seen[dep] = true
				todo = append(todo, dep)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
