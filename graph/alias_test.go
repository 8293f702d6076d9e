package graph_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-go/pawl/graph"
	"github.com/stretchr/testify/require"
)

// What a node holds - its snapshot, or what it has returned - is never written to; see design rules 1 and 11.

type held struct {
	Last  []int
	App   []int
	Union []int
	Map   map[string]int
	Max   *int
	Sum   *int
}

type heldUpdate struct {
	Last  []int
	App   []int          `merge:"append"`
	Set   *[]int         `merge:"set:App"`
	Union []int          `merge:"union"`
	Map   map[string]int `merge:"union"`
	Max   *int           `merge:"max"`
	Sum   int            `merge:"sum"`
}

func TestSnapshotsNeverChange(t *testing.T) {
	plan := planOf(t, graph.Fields[held, heldUpdate]())
	var s held
	var views []held
	var texts []string
	text := func(h held) string {
		return fmt.Sprint(h.Last, h.App, h.Union, h.Map, h.Max != nil && *h.Max > 0, orZero(h.Max), orZero(h.Sum))
	}
	for i := range 200 {
		u := heldUpdate{
			Last: []int{i}, App: []int{i, i}, Union: []int{i % 50, i}, Map: map[string]int{fmt.Sprint(i % 20): i}, Max: &i, Sum: i,
		}
		if i%60 == 59 {
			u.Set = &[]int{}
		}
		require.NoError(t, plan.Reduce(&s, []graph.Write[heldUpdate]{{Update: u}}))
		view := s
		plan.Clip(&view)
		views, texts = append(views, view), append(texts, text(view))
	}
	for i, view := range views {
		require.Equal(t, texts[i], text(view), "the snapshot of super-step %d has changed", i)
	}
}

func TestNothingThatANodeReturnedIsWrittenTo(t *testing.T) {
	room := func() []int { return append(make([]int, 0, 10), 1, 2) }
	kept := heldUpdate{Last: room(), App: room(), Set: new(room()), Union: room(), Map: map[string]int{"a": 1}, Max: new(1), Sum: 1}
	plan := planOf(t, graph.Fields[held, heldUpdate]())
	var s held
	require.NoError(t, plan.Reduce(&s, []graph.Write[heldUpdate]{{Update: kept}, {Update: heldUpdate{App: []int{3}, Union: []int{3}}}}))
	more := heldUpdate{App: []int{9}, Union: []int{9}, Map: map[string]int{"a": 9}, Max: new(9), Sum: 9}
	for range 3 {
		require.NoError(t, plan.Reduce(&s, []graph.Write[heldUpdate]{{Update: more}}))
		s.Last = append(s.Last, 9)
	}
	for _, array := range [][]int{kept.Last, kept.App, *kept.Set, kept.Union} {
		require.Equal(t, []int{1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, array[:10])
	}
	require.Equal(t, map[string]int{"a": 1}, kept.Map)
	require.Equal(t, 1, *kept.Max)
	require.Equal(t, heldUpdate{App: []int{9}, Union: []int{9}, Map: map[string]int{"a": 9}, Max: new(9), Sum: 9}, more)
}

func TestAMapIsCopiedOnWriteAndOnlyThen(t *testing.T) {
	plan := planOf(t, graph.Fields[held, heldUpdate]())
	s := held{Map: map[string]int{"a": 1}}
	before := s.Map
	require.NoError(t, plan.Reduce(&s, []graph.Write[heldUpdate]{{Update: heldUpdate{Sum: 1}}}))
	s.Map["b"] = 2
	require.Contains(t, before, "b", "it is still the same map")
	require.NoError(t, plan.Reduce(&s, []graph.Write[heldUpdate]{{Update: heldUpdate{Map: map[string]int{"c": 3}}}}))
	require.NotContains(t, before, "c")
}

func TestClipCutsEverySliceInTheState(t *testing.T) {
	type inner struct {
		private []int
		Array   [2][]string
		deep    [2][1]struct{ s []byte }
	}
	type s struct {
		inner

		A       []int
		private []string
		Nested  struct{ B []int }
		N       int
		big     [1 << 20]byte
		M       map[string][]int
		I       any
	}
	plan := planOf(t, graph.Replace[s]())
	full := func() s {
		v := s{A: make([]int, 1, 9), private: make([]string, 0, 9), M: map[string][]int{"a": make([]int, 1, 9)}, I: make([]int, 1, 9)}
		v.inner.private, v.Nested.B = make([]int, 2, 9), make([]int, 3, 9)
		v.Array[1], v.deep[1][0].s = make([]string, 4, 9), make([]byte, 5, 9)
		return v
	}
	v := full()
	v.big[7] = 1
	want := v
	plan.Clip(&v)
	require.Equal(t, want, v, "lengths and elements stay")
	caps := []int{
		cap(v.A), cap(v.private), cap(v.inner.private), cap(v.Nested.B),
		cap(v.Array[0]), cap(v.Array[1]), cap(v.deep[0][0].s), cap(v.deep[1][0].s),
	}
	require.Equal(t, []int{1, 0, 2, 3, 0, 4, 0, 5}, caps)
	require.Equal(t, 9, cap(v.M["a"]), "what is behind a map or interface is not handed out by copy")
	require.NotNil(t, v.private, "an empty slice does not become nil")
	require.Nil(t, v.Array[0])
}

func TestClipOfStatesThatAreNoStructs(t *testing.T) {
	slice := make([]int, 1, 9)
	planOf(t, graph.Replace[[]int]()).Clip(&slice)
	require.Equal(t, 1, cap(slice))
	number := 7
	planOf(t, graph.Replace[int]()).Clip(&number)
	require.Equal(t, 7, number)
	var nothing any
	planOf(t, graph.Replace[any]()).Clip(&nothing)
	require.Nil(t, nothing)
}

func TestWhatIsHandedOutIsSafeToAppendTo(t *testing.T) {
	plan := planOf(t, graph.Fields[State, Update]())
	master := State{Notes: append(make([]string, 0, 100), "a")}
	view := master
	plan.Clip(&view)
	_ = append(view.Notes, "of the node")
	require.NoError(t, plan.Reduce(&master, []graph.Write[Update]{{Update: Update{Notes: []string{"b"}}}}))
	_ = append(view.Notes, "of the node")
	require.Equal(t, []string{"a", "b"}, master.Notes)
	require.Equal(t, []string{"a"}, view.Notes)
}

// The cost a step of a state with 10,000 messages is the same as with 10.
func TestAppendsAreAmortised(t *testing.T) {
	for _, n := range []int{10, 10_000} {
		step := appendStep(t, n)
		reallocated, last := 0, step()
		perStep := testing.AllocsPerRun(1_000, func() {
			if c := step(); c != last {
				reallocated, last = reallocated+1, c
			}
		})
		require.Zero(t, perStep, "from %d elements", n) // on average, rounded down
		require.Less(t, reallocated, 12, "the array must grow by a factor, from %d elements", n)
	}
}

// appendStep returns what appends one element to a state that has n, hands the state out, and tells its capacity.
func appendStep(tb testing.TB, n int) func() int {
	tb.Helper()
	type update struct {
		N []int `merge:"append"`
	}
	plan := planOf(tb, graph.Fields[State2, update]())
	s := State2{N: slices.Repeat([]int{1}, n)}
	writes := []graph.Write[update]{{Update: update{[]int{1}}}}
	var view State2
	return func() int {
		if err := plan.Reduce(&s, writes); err != nil {
			tb.Fatal(err)
		}
		view = s
		plan.Clip(&view)
		return cap(s.N)
	}
}

// State2 is a state with a list of numbers.
type State2 struct{ N []int }

func orZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
