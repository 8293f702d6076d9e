package graph_test

import (
	"math"
	"testing"
	"time"

	"github.com/pawl-go/pawl/graph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type kinds struct {
	Int    int
	Small  int8
	Uint   uint8
	Float  float64
	Single float32
	Comp   complex128
	Text   string
	Time   time.Time
	Dur    time.Duration
	Flag   bool
	Any    any
	Func   func() int
	Chan   chan int
	Slice  []int
	Map    map[string]int
	Array  [2]int
	Struct struct{ a, B int }
	Ptr    *int
	Gen    pair[int]
}

type pair[T any] struct{ A, B T }

// lastOf has each field of kinds once more, to be set to a zero.
type lastOf struct {
	Int   *int
	Text  *string
	Time  *time.Time
	Flag  *bool
	Any   *any
	Slice *[]int
	Map   *map[string]int
	Ptr   **int
	Gen   *pair[int]
}

func TestLastTakesAnyTypeAndAZeroFieldIsNotSet(t *testing.T) {
	ch := make(chan int)
	full := kinds{
		Int: 1, Small: 1, Uint: 1, Float: 1, Single: 1, Comp: 1i, Text: "a", Time: time.Unix(1, 0), Dur: 1, Flag: true, Any: 1,
		Func: func() int { return 7 }, Chan: ch, Slice: []int{1}, Map: map[string]int{"a": 1}, Array: [2]int{0, 1},
		Struct: struct{ a, B int }{1, 0}, Ptr: new(1), Gen: pair[int]{B: 1},
	}
	got := mergeAll(t, kinds{}, full)
	require.Equal(t, 7, got.Func())
	kept := mergeAll(t, got, kinds{})
	require.Equal(t, 7, kept.Func())
	full.Func, got.Func, kept.Func = nil, nil, nil
	require.Equal(t, full, got)
	require.Equal(t, full, kept)
}

func TestLastSetsAZeroThroughAPointer(t *testing.T) {
	full := kinds{
		Int: 1, Text: "a", Time: time.Unix(1, 0), Flag: true, Any: 1, Slice: []int{1}, Map: map[string]int{"a": 1},
		Ptr: new(1), Gen: pair[int]{A: 1},
	}
	got := mergeAll(t, full, lastOf{
		new(0), new(""), &time.Time{}, new(false), new(any), new([]int), new(map[string]int), new(*int), &pair[int]{},
	})
	require.Equal(t, kinds{}, got)
	require.Equal(t, full, mergeAll(t, full, lastOf{}), "nil pointers set nothing")
}

func TestAnEmptySliceOrMapIsAValueANilOneIsNot(t *testing.T) {
	type s struct {
		Last  []int
		App   []int          `merge:"append"`
		Union []int          `merge:"union"`
		Map   map[string]int `merge:"union"`
	}
	full := s{Last: []int{1}, App: []int{1}, Union: []int{1}, Map: map[string]int{"a": 1}}
	empty := s{[]int{}, []int{}, []int{}, map[string]int{}}
	require.Equal(t, full, mergeAll(t, full, s{}))
	require.Equal(t, s{[]int{}, []int{1}, []int{1}, map[string]int{"a": 1}}, mergeAll(t, full, empty))
	got := mergeAll(t, s{}, empty)
	assert.NotNil(t, got.Last)
	assert.NotNil(t, got.Union)
	assert.NotNil(t, got.Map)
}

func TestAppendKeepsTaskOrder(t *testing.T) {
	type s struct {
		N []any `merge:"append"`
	}
	require.Equal(t, []any{0, 1, nil, 2}, mergeAll(t, s{[]any{0}}, s{[]any{1, nil}}, s{}, s{[]any{2}}).N)
}

func TestAppendOfTheStateToItself(t *testing.T) {
	s := State{Notes: append(make([]string, 0, 8), "a", "b")}
	require.Equal(t, []string{"a", "b", "a", "b"}, mergeAll(t, s, Update{Notes: s.Notes}).Notes)
}

func TestUnionOfSlicesAddsWhatIsNotThereInOrder(t *testing.T) {
	type id struct {
		name string
		n    [2]int
	}
	type s struct {
		IDs []id `merge:"union"`
	}
	a, b, c := id{"a", [2]int{}}, id{"b", [2]int{1}}, id{"c", [2]int{}}
	require.Equal(t, s{[]id{b, a, c}}, mergeAll(t, s{[]id{b}}, s{[]id{a, a, b}}, s{[]id{c, a}}))
	require.Equal(t, s{[]id{a, a, b}}, mergeAll(t, s{[]id{a, a}}, s{[]id{b}}), "doubles that are there stay")
}

func TestUnionComparesPointersByIdentityAndNaNWithNothing(t *testing.T) {
	type s struct {
		P []*int          `merge:"union"`
		F []pair[float64] `merge:"union"`
	}
	p, q := new(1), new(1)
	nan := pair[float64]{A: math.NaN()}
	got := mergeAll(t, s{P: []*int{p}, F: []pair[float64]{nan}}, s{P: []*int{p, q}, F: []pair[float64]{nan, {A: 1}, {A: 1}}})
	require.Len(t, got.P, 2)
	require.Len(t, got.F, 3)
}

func TestUnionOfMapsTakesNewAndChangedKeys(t *testing.T) {
	type s struct {
		M map[any]any `merge:"union"`
	}
	got := mergeAll(t, s{map[any]any{"a": 1, "b": 1}}, s{map[any]any{"b": 2, 3: nil}}, s{map[any]any{"b": 2, 3: nil, 4: []int{1}}})
	require.Equal(t, s{map[any]any{"a": 1, "b": 2, 3: nil, 4: []int{1}}}, got)
}

func TestUnionOfMapsNamesTheSameConflictEachTime(t *testing.T) {
	type s struct {
		M map[string]int `merge:"union"`
	}
	for range 50 {
		_, err := reduce(t, graph.Fields[s, s](), s{},
			s{map[string]int{"z": 1}}, s{map[string]int{"y": 1, "x": 1, "w": 1}}, s{map[string]int{"w": 2, "x": 2, "y": 2, "z": 2}})
		require.Equal(t, &graph.ConflictError{Field: "M", Key: "z", Nodes: [2]string{"a", "c"}}, err)
		_, err = reduce(t, graph.Fields[s, s](), s{}, s{map[string]int{"y": 1, "x": 1, "w": 1}}, s{map[string]int{"w": 2, "x": 2, "y": 2}})
		require.EqualError(t, err, `pawl: conflict: key "w" of field "M" is given two values by "a" and "b" in one super-step: `+
			`run them one after the other, or let each write keys of its own`)
	}
}

func TestUnionOfMapsNamesAnEmptyKey(t *testing.T) {
	type s struct {
		M map[string]int `merge:"union"`
	}
	_, err := reduce(t, graph.Fields[s, s](), s{}, s{map[string]int{"": 1}}, s{map[string]int{"": 2}})
	require.Equal(t, &graph.ConflictError{Field: "M", Key: `""`, Nodes: [2]string{"a", "b"}}, err)
}

func TestUnionOfMapsWithNaNs(t *testing.T) {
	type s struct {
		M map[float64]float64 `merge:"union"`
	}
	got := mergeAll(t, s{map[float64]float64{math.NaN(): 1}}, s{map[float64]float64{math.NaN(): 2}}, s{map[float64]float64{math.NaN(): 3}})
	require.Len(t, got.M, 3, "NaN is never the same key")
}

type numbers struct {
	I   int
	I8  int8
	U8  uint8
	F   float64
	F32 float32
	S   string
	T   time.Time
	D   time.Duration
	P   *float64
	PI  *int
	PT  *time.Time
}

type maxOf struct {
	I   int            `merge:"max"`
	I8  *int8          `merge:"max"`
	U8  uint8          `merge:"max"`
	F   *float64       `merge:"max"`
	F32 float32        `merge:"max"`
	S   string         `merge:"max"`
	T   time.Time      `merge:"max"`
	D   *time.Duration `merge:"max"`
	P   float64        `merge:"max"`
	PI  *int           `merge:"max"`
	PT  time.Time      `merge:"max"`
}

type minOf struct {
	I   int            `merge:"min"`
	I8  *int8          `merge:"min"`
	U8  uint8          `merge:"min"`
	F   *float64       `merge:"min"`
	F32 float32        `merge:"min"`
	S   string         `merge:"min"`
	T   time.Time      `merge:"min"`
	D   *time.Duration `merge:"min"`
	P   float64        `merge:"min"`
	PI  *int           `merge:"min"`
	PT  time.Time      `merge:"min"`
}

var (
	early, late = time.Unix(1, 0), time.Unix(2, 0)
	low         = numbers{-1, -1, 1, -1, -1, "a", early, -1, new(-1.0), new(-1), &early}
	high        = numbers{1, 1, 2, 1, 1, "b", late, 1, new(1.0), new(1), &late}
	lowMax      = maxOf{-1, new(int8(-1)), 1, new(-1.0), -1, "a", early, new(time.Duration(-1)), -1, new(-1), early}
	highMax     = maxOf{1, new(int8(1)), 2, new(1.0), 1, "b", late, new(time.Duration(1)), 1, new(1), late}
)

func TestMaxAndMinOfEachType(t *testing.T) {
	require.Equal(t, high, mergeAll(t, low, highMax))
	require.Equal(t, high, mergeAll(t, high, lowMax))
	require.Equal(t, high, mergeAll(t, low, highMax, lowMax))
	require.Equal(t, low, mergeAll(t, high, minOf(lowMax)))
	require.Equal(t, low, mergeAll(t, low, minOf(highMax)))
	require.Equal(t, low, mergeAll(t, high, minOf(highMax), minOf(lowMax)))
}

func TestANilPointerInTheStateIsNoValueYet(t *testing.T) {
	require.InDelta(t, -1, *mergeAll(t, numbers{}, lowMax).P, 0)
	require.InDelta(t, 1, *mergeAll(t, numbers{}, minOf(highMax)).P, 0)
	require.Equal(t, 0, mergeAll(t, numbers{}, lowMax).I, "a plain zero is a value")
}

func TestMaxAndMinIgnoreNaN(t *testing.T) {
	nan := maxOf{P: math.NaN(), F: new(math.NaN()), F32: float32(math.NaN())}
	require.Equal(t, low, mergeAll(t, low, nan))
	require.Equal(t, low, mergeAll(t, low, minOf(nan)))
	require.Nil(t, mergeAll(t, numbers{}, nan).P)
	broken := numbers{F: math.NaN(), P: new(math.NaN())}
	got := mergeAll(t, broken, maxOf{P: -1, F: new(-1.0)})
	require.InDelta(t, -1, *got.P, 0, "what is NaN gives way")
	require.InDelta(t, -1, got.F, 0)
	got = mergeAll(t, numbers{}, maxOf{F: new(math.Inf(1))}, maxOf{F: new(math.Inf(-1))})
	require.InDelta(t, math.Inf(1), got.F, 0)
}

func TestTimesAreComparedAsInstants(t *testing.T) {
	zone := time.FixedZone("east", 3600)
	type s struct {
		T time.Time `merge:"max"`
	}
	require.Equal(t, time.UTC, mergeAll(t, s{early.UTC()}, s{early.In(zone)}).T.Location(), "no later, so it stays")
	require.Equal(t, zone, mergeAll(t, s{early.UTC()}, s{late.In(zone)}).T.Location())
}

func TestSumAddsAndWraps(t *testing.T) {
	type s struct {
		I8 int8
		U8 uint8
		F  float32
		C  complex64
		D  time.Duration
		P  *int
	}
	type u struct {
		I8 int8           `merge:"sum"`
		U8 *uint8         `merge:"sum"`
		F  float32        `merge:"sum"`
		C  complex64      `merge:"sum"`
		D  *time.Duration `merge:"sum"`
		P  int            `merge:"sum"`
	}
	one := u{1, new(uint8(1)), math.MaxFloat32, 1i, new(time.Second), 5}
	got := mergeAll(t, s{I8: math.MaxInt8, U8: math.MaxUint8, C: 1}, one, u{I8: -1}, u{F: math.MaxFloat32, P: -2})
	require.Equal(t, s{math.MaxInt8, 0, float32(math.Inf(1)), 1 + 1i, time.Second, new(3)}, got)
}

func TestSetComesBeforeTheAppendsOfItsSuperStep(t *testing.T) {
	type u struct {
		Notes []string  `merge:"append"`
		Clear *[]string `merge:"set:Notes"`
	}
	got := mergeAll(t, State{Notes: []string{"old"}},
		u{Notes: []string{"a"}}, u{Clear: &[]string{"new"}, Notes: []string{"b"}}, u{Notes: []string{"c"}})
	require.Equal(t, []string{"new", "a", "b", "c"}, got.Notes)
	require.Nil(t, mergeAll(t, State{Notes: []string{"old"}}, u{Clear: new([]string)}).Notes)
}

func TestSetBesideSumMaxAndUnion(t *testing.T) {
	type s struct {
		N, M int
		IDs  []int
	}
	type u struct {
		N    int   `merge:"sum"`
		M    int   `merge:"max"`
		IDs  []int `merge:"union"`
		SetN *int  `merge:"set:N"`
		SetM *int  `merge:"set:M"`
		Only []int `merge:"set:IDs"`
	}
	got := mergeAll(t, s{10, 10, []int{1}}, u{N: 1, M: 2, IDs: []int{5}}, u{SetN: new(0), SetM: new(1), Only: []int{7}}, u{N: 1})
	require.Equal(t, s{2, 2, []int{7, 5}}, got)
}

func TestConflictsNameFieldAndTasks(t *testing.T) {
	type u struct {
		Draft string
		Clear *string `merge:"set:Draft"`
	}
	set, clearing := u{Draft: "a"}, u{Clear: new("")}
	for name, updates := range map[string][]u{
		"two values":          {set, set},
		"with others between": {set, {}, {}, set},
		"two clears":          {clearing, clearing},
		"a write and a clear": {set, clearing},
		"a clear and a write": {clearing, set},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := reduce(t, graph.Fields[State, u](), State{}, updates...)
			last := string(rune('a' + len(updates) - 1))
			require.Equal(t, &graph.ConflictError{Field: "Draft", Nodes: [2]string{"a", last}}, err)
		})
	}
	require.Equal(t, "a", mergeAll(t, State{}, u{Draft: "a", Clear: new("b")}).Draft, "one task may do both")
}

func TestConflictsNameThePlaceInAFanOut(t *testing.T) {
	plan := planOf(t, graph.Fields[State, Update]())
	var s State
	err := plan.Reduce(&s, []graph.Write[Update]{
		{Node: "plan", Index: -1, Update: Update{Notes: []string{"n"}}},
		{Node: "search", Index: 3, Update: Update{Draft: "a"}},
		{Node: "search", Index: 12, Update: Update{Draft: "b"}},
	})
	require.EqualError(t, err, `pawl: conflict: field "Draft" is set by "search[3]" and "search[12]" in one super-step: `+
		`run them one after the other, or give the field a merge tag that takes both`)
}

func TestTheSameFieldInDifferentSuperStepsIsFine(t *testing.T) {
	s := mergeAll(t, State{}, Update{Draft: "a"})
	require.Equal(t, "b", mergeAll(t, s, Update{Draft: "b"}).Draft)
}

type (
	Common struct {
		Log []string `merge:"append"`
	}
	counted struct {
		N int `merge:"sum"`
	}
)

func TestFieldsOfEmbeddedStructsAreMerged(t *testing.T) {
	type s struct {
		counted
		Log []string
	}
	type u struct {
		_ int
		Common
		counted
	}
	got := mergeAll(t, s{}, u{Common: Common{[]string{"a"}}, counted: counted{1}}, u{Common: Common{[]string{"b"}}, counted: counted{2}})
	require.Equal(t, s{counted{3}, []string{"a", "b"}}, got)
}

func TestStatesMayHaveMoreThanUpdates(t *testing.T) {
	type s struct {
		private []int
		Fixed   string
		N       int
	}
	type nothing struct{}
	require.Equal(t, s{[]int{1}, "a", 2}, mergeAll(t, s{[]int{1}, "a", 0}, struct{ N int }{2}))
	require.Equal(t, s{Fixed: "a"}, mergeAll(t, s{Fixed: "a"}, nothing{}, nothing{}))
}

func TestNoUpdatesChangeNothing(t *testing.T) {
	require.Equal(t, State{Draft: "a"}, mergeAll[State, Update](t, State{Draft: "a"}))
}
