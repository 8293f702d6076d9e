package pawl_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Go code in the documents is held to three rules:
//
//   - A go block that begins with a package clause is a complete file. It is compiled and vetted in a module that
//     requires this one, as a user's would; its tests and examples, if it has any, are run.
//   - A complete program that is followed by a block "text output" is run, and must print that.
//   - Any other go block is a fragment: declarations, or statements. It is type-checked against the real packages, with
//     their names as imports. Names that it does not define are taken as given, so what is wrong is a symbol, field or
//     method that does not exist, or a call with the wrong arguments.
//
// All of it must be formatted as gofmt does. In prose, `superstep.Config.Grace` must exist, and so must what a link
// points to. CHANGELOG.md may name what is gone.

func TestDocsCompleteBlocks(t *testing.T) {
	dir := userModule(t)
	var programs []goBlock
	var count int
	for _, b := range goBlocks(t) {
		if !b.complete() {
			continue
		}
		count++
		require.NoError(t, os.Mkdir(filepath.Join(dir, b.slug()), 0o755))
		// The line directive makes the compiler speak of the document.
		code := fmt.Sprintf("//line %s:%d\n%s", b.file, b.line, b.text)
		require.NoError(t, os.WriteFile(filepath.Join(dir, b.slug(), b.goFile()), []byte(code), 0o600))
		if b.output != nil {
			programs = append(programs, b)
		}
	}
	require.NotZero(t, count, "no document has a complete file")
	goCommand(t, dir, "vet", "./...")
	goCommand(t, dir, "test", "./...")
	for _, b := range programs {
		t.Run(b.slug(), func(t *testing.T) {
			got := goCommand(t, dir, "run", "./"+b.slug())
			assert.Equal(t, strings.TrimSpace(*b.output), strings.TrimSpace(got), "%s:%d prints something else", b.file, b.line)
		})
	}
}

func TestDocsFragments(t *testing.T) {
	api := loadAPI(t)
	for _, b := range goBlocks(t) {
		if b.complete() {
			continue
		}
		t.Run(b.slug(), func(t *testing.T) {
			for _, err := range api.checkFragment(b) {
				t.Error(err)
			}
		})
	}
}

// The check itself, on fragments that must be refused and some that must not be.
func TestCheckFragment(t *testing.T) {
	api := loadAPI(t)
	for _, tt := range []struct{ code, want string }{
		{"key := task.Info(ctx).IdempotencyKey()", ""},
		{"type State struct{ Topic string }\n\nfunc plan(ctx context.Context, s State) error { return nil }", ""},
		{"return task.Usage{Calls: 1}, err", ""},
		{"task.Gone(ctx)", "undefined: task.Gone"},
		{"u := task.Usage{Cents: 1}", "unknown field Cents"},
		{"task.Info(ctx).Cost()", "has no field or method Cost"},
		{"task.Emit(ctx)", "not enough arguments"},
		{"b.Node(...)", "expected"},
		{"x  :=  1", "gofmt"},
	} {
		errs := api.checkFragment(goBlock{file: "x.md", line: 1, text: tt.code})
		if tt.want == "" {
			assert.Empty(t, errs, tt.code)
			continue
		}
		require.NotEmpty(t, errs, tt.code)
		assert.ErrorContains(t, errs[0], tt.want)
	}
}

func TestDocsAreFormatted(t *testing.T) {
	for _, b := range goBlocks(t) {
		if b.complete() {
			assert.NoError(t, b.checkFormat())
		}
	}
}

var symbol = regexp.MustCompile(`(?:^|[^\w./])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

func TestDocsNameWhatExists(t *testing.T) {
	api := loadAPI(t)
	for _, doc := range documents(t) {
		if doc.file == "CHANGELOG.md" {
			continue
		}
		for _, span := range doc.code {
			for _, m := range symbol.FindAllStringSubmatch(span.text, -1) {
				assert.True(t, api.has(m[1], m[2], m[3]), "%s:%d: `%s`: %s does not exist: correct it, or leave the package "+
					"off if it is meant not to exist", doc.file, span.line, span.text, strings.Trim(strings.Join(m[1:], "."), "."))
			}
		}
	}
}

func TestDocsLinks(t *testing.T) {
	docs := documents(t)
	anchors := map[string][]string{}
	for _, doc := range docs {
		anchors[doc.file] = doc.anchors
	}
	for _, doc := range docs {
		for _, link := range doc.links {
			if strings.Contains(link.text, ":") {
				continue // another site
			}
			path, anchor, _ := strings.Cut(link.text, "#")
			target := doc.file
			if path != "" {
				target = filepath.Join(filepath.Dir(doc.file), path)
				_, err := os.Stat(target)
				assert.NoError(t, err, "%s:%d: link to %s", doc.file, link.line, link.text)
			}
			if known, ok := anchors[target]; ok && anchor != "" {
				assert.Contains(t, known, anchor, "%s:%d: link to %s: no such heading", doc.file, link.line, link.text)
			}
		}
	}
}

// CI runs the two commands of the README, so they must stand where it looks for them.
func TestReadmeCommands(t *testing.T) {
	data, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(data), "\n## Try it\n")
	require.True(t, found, "README.md needs a section '## Try it'")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)\n```sh\n(.*?)\n```\n").FindAllStringSubmatch(section+"\n", -1)
	require.Len(t, blocks, 1, "README.md: the section 'Try it' has one sh block")
	require.Len(t, strings.Split(blocks[0][1], "\n"), 2, "README.md: the sh block of 'Try it' has two lines: the main job, the tests")
}

// document is what the tests look at in a Markdown file.
type document struct {
	file    string
	blocks  []fence
	code    []span // inline code
	links   []span // targets of links
	anchors []string
}

type span struct {
	line int
	text string
}

// fence is a fenced block.
type fence struct {
	info       string
	line, last int // of its content
	text       string
}

var (
	fenceMark  = regexp.MustCompile("^ {0,3}(```+|~~~+)\\s*(.*?)\\s*$")
	heading    = regexp.MustCompile(`^#{1,6} +(.*)$`)
	inlineCode = regexp.MustCompile("`([^`]+)`")
	inlineLink = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	linkTarget = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
)

var notForReaders = regexp.MustCompile(`^(\..*|bin|testdata|node_modules)$`)

// documents reads every Markdown file that is written for readers: those of the root and of docs, and each README.
func documents(t *testing.T) []document {
	t.Helper()
	var docs []document
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && notForReaders.MatchString(d.Name()):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		case !strings.Contains(path, "/"), strings.HasPrefix(path, "docs/"), d.Name() == "README.md":
			data, err := os.ReadFile(path)
			docs = append(docs, parseDocument(filepath.ToSlash(path), string(data)))
			return err
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return docs
}

func parseDocument(file, text string) document {
	doc := document{file: file}
	var open string // the mark that opened the block we are in
	for i, line := range strings.Split(text, "\n") {
		mark := fenceMark.FindStringSubmatch(line)
		switch {
		case open == "" && mark != nil:
			open = mark[1]
			doc.blocks = append(doc.blocks, fence{info: mark[2], line: i + 2})
		case open != "" && mark != nil && strings.HasPrefix(mark[1], open) && mark[2] == "":
			open = ""
			doc.blocks[len(doc.blocks)-1].last = i
		case open != "":
			doc.blocks[len(doc.blocks)-1].text += line + "\n"
		default:
			doc.addProse(i+1, line)
		}
	}
	return doc
}

func (doc *document) addProse(n int, line string) {
	if m := heading.FindStringSubmatch(line); m != nil {
		doc.anchors = append(doc.anchors, anchorOf(m[1]))
	}
	for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
		doc.code = append(doc.code, span{n, m[1]})
	}
	line = inlineCode.ReplaceAllString(line, "code")
	for _, m := range slices.Concat(inlineLink.FindAllStringSubmatch(line, -1), linkTarget.FindAllStringSubmatch(line, -1)) {
		doc.links = append(doc.links, span{n, m[1]})
	}
}

// anchorOf returns the anchor that a heading gets: lower case, spaces as hyphens, other punctuation dropped.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(heading))
}

// goBlock is a block of Go.
type goBlock struct {
	file   string
	line   int
	text   string
	output *string // what it must print
}

func goBlocks(t *testing.T) []goBlock {
	t.Helper()
	var found []goBlock
	for _, doc := range documents(t) {
		for i, f := range doc.blocks {
			if f.info != "go" {
				continue
			}
			b := goBlock{file: doc.file, line: f.line, text: f.text}
			// Directly: the fences are at most one empty line apart.
			if i+1 < len(doc.blocks) && doc.blocks[i+1].info == "text output" && doc.blocks[i+1].line-f.last <= 4 {
				b.output = &doc.blocks[i+1].text
			}
			found = append(found, b)
		}
	}
	return found
}

var packageClause = regexp.MustCompile(`(?m)\A(?://.*\n|\s*\n)*package \w+$`)

func (b goBlock) complete() bool { return packageClause.MatchString(b.text) }

// slug names the block's folder and test: README_md_12.
func (b goBlock) slug() string {
	return strings.NewReplacer("/", "_", ".", "_").Replace(b.file) + "_" + strconv.Itoa(b.line)
}

var testFunc = regexp.MustCompile(`(?m)^func (Test|Benchmark|Fuzz|Example)\w*\(`)

func (b goBlock) goFile() string {
	if testFunc.MatchString(b.text) {
		return "block_test.go"
	}
	return "block.go"
}

func (b goBlock) checkFormat() error {
	want, err := format.Source([]byte(b.text))
	if err != nil {
		return fmt.Errorf("%s:%d: %w", b.file, b.line, err)
	}
	if !bytes.Equal(bytes.TrimSpace(want), []byte(strings.TrimSpace(b.text))) {
		return fmt.Errorf("%s:%d: the block is not formatted; gofmt makes of it:\n%s", b.file, b.line, want)
	}
	return nil
}

// userModule returns the folder of a new module that requires this one, with the same versions of everything.
func userModule(t *testing.T) string {
	t.Helper()
	root, err := os.Getwd()
	require.NoError(t, err)
	data, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	mod := strings.Replace(string(data), "module "+module+"\n", "module example.org/docs\n", 1)
	mod += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, root)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600))
	sum, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	return dir
}

// goCommand runs the go command in a folder, fails the test if it fails, and returns what it wrote to standard output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s:\n%s%s", strings.Join(args, " "), out, &stderr)
	return string(out)
}

// api is what our packages, and those they use, export.
type api struct {
	importer types.Importer
	fset     *token.FileSet
	byName   map[string][]*listed // best first: ours, then the standard library, then others; short paths first
}

// loadAPI reads the types of all packages from what the go command compiled.
func loadAPI(t *testing.T) *api {
	t.Helper()
	all := goList(t, "-export", "-deps", "./...", "testing", "testing/synctest", "net/http/httptest", "log/slog", "os/signal")
	a := &api{fset: token.NewFileSet(), byName: map[string][]*listed{}}
	a.importer = importer.ForCompiler(a.fset, "gc", func(path string) (io.ReadCloser, error) {
		p := all[path]
		if p == nil {
			return nil, fmt.Errorf("package %s is not known here", path)
		}
		return os.Open(p.Export)
	})
	for _, p := range all {
		if p.Name != "main" && !strings.Contains(p.ImportPath, "internal") && !strings.HasPrefix(p.ImportPath, "vendor/") {
			a.byName[p.Name] = append(a.byName[p.Name], p)
		}
	}
	rank := func(p *listed) int {
		switch {
		case p.ours():
			return 0
		case p.Standard:
			return 1000
		}
		return 2000
	}
	for _, ps := range a.byName {
		slices.SortFunc(ps, func(p, q *listed) int { return rank(p) + len(p.ImportPath) - rank(q) - len(q.ImportPath) })
	}
	return a
}

// has reports whether a package of that name exports the symbol, and the symbol the member. Names that are not those of
// a package of ours are not judged.
func (a *api) has(name, symbol, member string) bool {
	candidates := a.byName[name]
	if len(candidates) == 0 || !candidates[0].ours() {
		return true
	}
	return slices.ContainsFunc(candidates, func(p *listed) bool {
		pkg, err := a.importer.Import(p.ImportPath)
		if err != nil {
			return false
		}
		object := pkg.Scope().Lookup(symbol)
		if object == nil || member == "" {
			return object != nil
		}
		found, _, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, member)
		return found != nil
	})
}

// What the type checker says of names that a fragment leaves open, and of what its surroundings would use or give.
var openInFragment = regexp.MustCompile(`^undefined: \w+$|declared and not used|imported( as \w+)? and not used| is not used$|` +
	`^too many return values|^missing return$`)

// checkFragment type-checks a fragment and returns what is wrong with it.
func (a *api) checkFragment(b goBlock) []error {
	if err := b.checkFormat(); err != nil {
		return []error{err}
	}
	file, err := a.parseFragment(b)
	if err != nil {
		return []error{fmt.Errorf("a fragment is all declarations or all statements (package clause: complete file): %w", err)}
	}
	var errs []error
	config := types.Config{
		Importer: a.importer,
		Error: func(err error) {
			var typeErr types.Error
			if !errors.As(err, &typeErr) || !openInFragment.MatchString(typeErr.Msg) {
				errs = append(errs, err)
			}
		},
	}
	_, _ = config.Check("fragment", a.fset, []*ast.File{file}, nil) // Error has taken them all
	return errs
}

// parseFragment makes a file of a fragment, with imports of all packages whose names it uses.
func (a *api) parseFragment(b goBlock) (*ast.File, error) {
	line := fmt.Sprintf("//line %s:%d\n", b.file, b.line)
	head, tail := "", ""
	file, err := parser.ParseFile(a.fset, "", "package p\n"+line+b.text, parser.SkipObjectResolution)
	if err != nil {
		head, tail = "func _() {\n", "\n}"
		if file, err = parser.ParseFile(a.fset, "", "package p\n"+head+line+b.text+tail, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
	}
	imports := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && len(a.byName[x.Name]) > 0 {
				imports[x.Name] = a.byName[x.Name][0].ImportPath
			}
		}
		return true
	})
	var clauses strings.Builder
	for name, path := range imports {
		fmt.Fprintf(&clauses, "import %s %q\n", name, path)
	}
	return parser.ParseFile(a.fset, "", "package p\n"+clauses.String()+head+line+b.text+tail, parser.SkipObjectResolution)
}
