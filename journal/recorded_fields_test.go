package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// rebuilt is what errors.As gives of a replayed error.
func rebuilt[T error](t *testing.T, err error) T {
	t.Helper()
	var target T
	require.ErrorAs(t, replayed(t, err), &target)
	return target
}

func TestFieldsComeBackByGoName(t *testing.T) {
	all := realErrors()

	call := rebuilt[*providers.CallError](t, all["provider call"])
	require.Equal(t, "openai", call.Provider)
	require.Equal(t, classifier.RateLimited, call.Class)
	require.Equal(t, 7*time.Second, call.Hint)
	require.ErrorAs(t, call.Err, new(*openai.APIError), "a field tagged json:\"-\"")

	node := rebuilt[*superstep.NodeError](t, all["node"])
	require.Equal(t, "research/search[3]", node.Node)
	require.Equal(t, 4, node.SuperStep)
	require.ErrorAs(t, node.Err, new(*retrypolicy.AttemptsError))

	api := rebuilt[*openai.APIError](t, all["API, code text"])
	require.Equal(t, all["API, code text"], error(api), "all fields of go-openai's error")
	require.Equal(t, all["API, inner"], error(rebuilt[*openai.APIError](t, all["API, inner"])))
	for name, code := range map[string]any{"API, code int": 502, "API, code float": 502.0, "API, code nil": nil} {
		require.Equal(t, code, rebuilt[*openai.APIError](t, all[name]).Code, "a code keeps its kind")
	}
	request := rebuilt[*openai.RequestError](t, all["request 502"])
	require.Equal(t, "<html>HTTP 404 Bad Gateway</html>", string(request.Body))
	require.ErrorAs(t, request.Err, new(*json.SyntaxError))

	op := rebuilt[*net.OpError](t, all["refused in a URL"])
	require.Equal(t, "127.0.0.1:1", op.Addr.String())
	require.ErrorIs(t, op.Err, syscall.ECONNREFUSED)
	require.Equal(t, "/s", rebuilt[*net.OpError](t, all["closed"]).Source.String())
	require.Equal(t, all["DNS, timeout"], error(rebuilt[*net.DNSError](t, all["DNS, timeout"])))

	path := rebuilt[*fs.PathError](t, all["path, closed"])
	require.Equal(t, "/x", path.Path)
	require.Equal(t, fs.ErrClosed, path.Err, "a well-known value is itself")
	require.Equal(t, syscall.ENOENT, rebuilt[*os.PathError](t, all["path"]).Err, "so is an error number")
	require.True(t, os.IsNotExist(rebuilt[*os.PathError](t, all["path"])))

	require.Equal(t, all["time"], error(rebuilt[*time.ParseError](t, all["time"])))
	require.Equal(t, "int", rebuilt[*json.UnmarshalTypeError](t, all["JSON type"]).Type.String())
	require.Nil(t, rebuilt[*json.UnmarshalTypeError](t, all["JSON named type"]).Type, "a type that has no known name is zero")

	p := rebuilt[*task.PanicError](t, all["panic"])
	require.Equal(t, &task.PanicError{Whose: `node "draft"`, Value: "boom", Stack: []byte("goroutine 1")}, p)

	fallback := rebuilt[*providers.FallbackError](t, all["fallback"])
	require.Equal(t, []string{"c"}, fallback.NotAsked)
	require.Len(t, fallback.Failures, 2)
	require.ErrorAs(t, fallback.Failures[1].Err, new(*openai.APIError))

	e := rebuilt[*embedding](t, all["embedding"])
	require.Equal(t, all["embedding"], error(e), "embedded structs, of unexported types too")

	wraps := rebuilt[*wrapsError](t, all["embedded error"])
	require.Equal(t, "code 8", wraps.Error(), "an embedded error is there to be called")
	require.Equal(t, "op", wraps.Op)

	n := &nested{Raw: json.RawMessage(`{"a":1}`)}
	n.Inner.X, n.Inner.M, n.Inner.P = 3, map[string][]int{"a": {1, 2}, "b": nil}, &Detail{Reason: "r"}
	require.Equal(t, n, rebuilt[*nested](t, n), "nested structs go by Go's names")
}

func TestAnyFieldsKeepTheirKind(t *testing.T) {
	for name, v := range map[string]any{
		"int": 1, "int8": int8(1), "uint64": uint64(math.MaxUint64), "int64": int64(math.MinInt64), "float64": 1.0, "float32": float32(1.5),
		"string": "x", "bool": true, "nil": nil, "number": json.Number("1.50"), "list": []any{1, "a", nil, 2.0, []any{}},
		"map": map[string]any{"a": 1, "b": nil, "c": map[string]any{}}, "bytes": []byte{0, 1, 2}, "strings": []string{"a"}, "empty": "",
		"duration": time.Minute, "time": time.Unix(1, 5).UTC(), "url": &url.URL{Scheme: "http", Host: "h", Path: "/p", User: url.UserPassword("u", "p w")},
		"ip": net.IPv4(1, 2, 3, 4), "addr": netip.MustParseAddr("::1"), "signal": syscall.SIGTERM, "pointer": new("x"), "header": map[string][]string{"A": {"b"}},
		"no UTF-8": "\xff", "zero": 0, "false": false,
	} {
		got := rebuilt[*kinds](t, &kinds{A: v})
		require.Equal(t, v, got.A, name)
	}
	require.True(t, math.IsNaN(rebuilt[*kinds](t, &kinds{A: math.NaN()}).A.(float64)))
	require.True(t, math.IsInf(rebuilt[*kinds](t, &kinds{A: math.Inf(-1)}).A.(float64), -1))
	inner := rebuilt[*kinds](t, &kinds{A: fmt.Errorf("x: %w", io.EOF), B: fs.ErrExist, C: codeError{7}})
	require.ErrorIs(t, inner.A.(error), io.EOF)
	require.Equal(t, fs.ErrExist, inner.B)
	require.ErrorIs(t, inner.C.(error), codeError{7}, "an error in an any field is a RecordedError")
	require.Nil(t, rebuilt[*kinds](t, &kinds{A: Detail{Reason: "x"}}).A, "a type of others cannot be found by its name")
}

type typed struct {
	T    time.Time
	D    time.Duration
	B    []byte
	U    url.URL
	PU   *url.URL
	N    syscall.Errno
	Big  *big.Int
	F    float64
	Arr  [3]uint8
	M    map[int]bool
	E    error
	Es   []error
	Net  net.Error
	C    complex128
	Fn   func()
	Ch   chan int
	R    io.Reader
	Loc  *time.Location
	Ctx  context.Context //nolint:containedctx // it is what must not be recorded
	Next *typed
}

func (*typed) Error() string { return "typed" }

func TestTypedFieldsComeBack(t *testing.T) {
	in := &typed{
		T: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), D: 5, B: []byte{}, U: url.URL{Host: "h"}, PU: &url.URL{Path: "/x"}, N: syscall.EPIPE, Big: big.NewInt(77),
		F: math.Inf(1), Arr: [3]uint8{1, 2, 3}, M: map[int]bool{-4: true}, E: fmt.Errorf("e: %w", io.EOF), Es: []error{io.EOF, nil, codeError{1}},
		Net: &net.DNSError{IsTimeout: true, Err: "x"}, C: 1i, Fn: func() {}, Ch: make(chan int), R: http0{}, Loc: time.UTC, Ctx: context.Background(),
		Next: &typed{D: 9},
	}
	out := rebuilt[*typed](t, in)
	require.ErrorIs(t, out.E, io.EOF)
	require.Len(t, out.Es, 3)
	require.Equal(t, io.EOF, out.Es[0])
	require.NoError(t, out.Es[1])
	require.ErrorIs(t, out.Es[2], codeError{1})
	require.True(t, out.Net.Timeout(), "an interface that the record answers")
	want := *in
	want.E, want.Es, want.Net = out.E, out.Es, out.Net
	want.C, want.Fn, want.Ch, want.R, want.Loc, want.Ctx = 0, nil, nil, nil, nil, nil
	require.Equal(t, &want, out, "what cannot be recorded is zero, all else is as it was")
}

type http0 struct{}

func (http0) Read([]byte) (int, error) { return 0, io.EOF }

// broken is a type whose text cannot be read back, in an error that is otherwise fine.
type broken struct {
	Shown string
	inner int
}

func (b *broken) MarshalText() ([]byte, error) { return []byte("x"), nil }
func (b *broken) UnmarshalText([]byte) error   { b.Shown = "half"; return errors.New("broken") }

type panicky struct{ inner int }

func (p panicky) MarshalText() ([]byte, error) { return []byte("x"), nil }
func (p *panicky) UnmarshalText([]byte) error  { panic("broken") }
func (p *panicky) UnmarshalJSON([]byte) error  { panic("broken") }

type withBroken struct {
	Op string
	B  broken
	P  panicky
	PP *panicky
}

func (e *withBroken) Error() string              { return "with broken" }
func (e *withBroken) HTTPStatusCode() int        { return 404 }
func (e *withBroken) UnmarshalJSON([]byte) error { panic("nobody asks an error to decode itself") }

func TestATypeWithABrokenDecoderStillMatches(t *testing.T) {
	err := fmt.Errorf("x: %w", &withBroken{Op: "op", B: broken{Shown: "s", inner: 1}, P: panicky{1}, PP: &panicky{1}})
	got := rebuilt[*withBroken](t, err)
	require.Equal(t, "op", got.Op)
	require.Zero(t, got.B)
	require.Zero(t, got.P)
	status, permanent := classifier.PermanentHTTPStatus(replayed(t, err))
	require.Equal(t, 404, status)
	require.True(t, permanent)
	require.EqualError(t, replayed(t, err), "x: with broken")
}

func TestARebuiltPointerIsTheSameEachTime(t *testing.T) {
	back := replayed(t, fmt.Errorf("x: %w", A(503)))
	var a, b *openai.APIError
	require.ErrorAs(t, back, &a)
	require.ErrorAs(t, back, &b)
	require.Same(t, a, b)
	require.ErrorIs(t, back, a)
}

// Two types defined in functions can have one path, and are then told apart by nothing but their fields.
func TestTypesDefinedInFunctionsGoByTheirPath(t *testing.T) {
	type here struct{ codeError }
	var target here
	require.ErrorAs(t, replayed(t, local()), &target)
	require.Equal(t, 7, target.Code)
}

func TestNilPointersStayNil(t *testing.T) {
	back := replayed(t, realErrors()["API, nil"])
	target := A(1)
	require.ErrorAs(t, back, &target)
	require.Nil(t, target)
}

func TestARecordedErrorRecordedAgainKeepsItsRecord(t *testing.T) {
	for name, err := range realErrors() {
		t.Run(name, func(t *testing.T) {
			first := record(err)
			again := journal.RecordError(first.Err(), journal.ErrorFacts{Class: "other", Status: 1})
			require.JSONEq(t, asJSON(t, first), asJSON(t, again))
			around := record(fmt.Errorf("around: %w", first.Err()))
			require.Len(t, around.Causes, 1)
			around.Causes[0].Asked = first.Asked
			require.JSONEq(t, asJSON(t, first), asJSON(t, around.Causes[0]))
		})
	}
	var timeout net.Error
	back := replayed(t, realErrors()["DNS, timeout"])
	require.ErrorAs(t, back, &timeout)
	require.Equal(t, "*net.DNSError", record(timeout).Type, "as an interface, too")
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func TestSentinelsOfOthersMatchByTypeAndText(t *testing.T) {
	back := replayed(t, fmt.Errorf("x: %w", errMine))
	require.ErrorIs(t, back, errMine)
	require.NotErrorIs(t, back, errors.New("mine: something else"))
	require.NotErrorIs(t, replayed(t, errors.New("EOF")), io.EOF, "well-known values are exact")
}

func TestNothingButTheTextIsPrinted(t *testing.T) {
	err := &secretError{Shown: "shown"}
	outer := &kinds{A: "sk-secret", B: []byte("sk-secret"), C: err}
	back := replayed(t, outer)
	for _, format := range []string{"%v", "%+v", "%s", "%q"} {
		require.NotContains(t, fmt.Sprintf(format, back), "sk-secret")
		require.NotContains(t, fmt.Sprintf(format, record(outer)), "sk-secret")
	}
	require.NotContains(t, fmt.Sprintf("%#v", back), "sk-secret")
	require.NotContains(t, asJSON(t, back), "sk-secret")
}

func TestRecordOfNil(t *testing.T) {
	require.Nil(t, journal.RecordError(nil, journal.ErrorFacts{}))
	require.NoError(t, (*journal.ErrorRecord)(nil).Err())
}

func TestHTTPMessagesAreNeverRecorded(t *testing.T) {
	rec := record(realErrors()["live"])
	require.JSONEq(t, `{"Op":"op"}`, withoutTypes(t, rec.Value))
}

// withoutTypes drops the entries of interfaces that could not be recorded.
func withoutTypes(t *testing.T, raw []byte) string {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(raw, &fields))
	for name, v := range fields {
		if _, is := v.(map[string]any); is {
			delete(fields, name)
		}
	}
	return asJSON(t, fields)
}
