package journal_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/stretchr/testify/require"
)

type (
	result struct {
		Topic   string `json:"topic"`
		Scores  []float64
		Any     any             `json:",omitempty"`
		Inner   *result         `json:",omitempty"`
		Map     map[string]any  `json:",omitempty"`
		ByNode  map[int]*result `json:",omitempty"`
		Hidden  chan int        `json:"-"`
		private chan int
		Arr     [2]any `json:",omitzero"`
	}
	failing  struct{ why error }
	panicked struct{}
	texty    struct{}
	keyed    struct{ N int }
	promoted struct{ holder }
	holder   struct{ Bad func() }
	empties  struct {
		C chan int     `json:",omitzero"`
		M map[bool]int `json:",omitempty"`
		F func()       `json:"-"`
	}
)

func (f failing) MarshalJSON() ([]byte, error) { return nil, f.why }
func (panicked) MarshalJSON() ([]byte, error)  { panic("boom") }
func (*texty) MarshalText() ([]byte, error)    { return nil, errMine }
func (k keyed) MarshalText() ([]byte, error)   { return nil, errMine }

func ring() *result {
	r := &result{}
	r.Inner = &result{Inner: r}
	return r
}

func TestAFaultIsNamedWithItsPath(t *testing.T) {
	loopMap := map[string]any{}
	loopMap["again"] = loopMap
	loopSlice := make([]any, 1)
	loopSlice[0] = loopSlice
	for name, c := range map[string]struct {
		value             any
		path, typ, reason string
	}{
		"NaN":                  {result{Scores: []float64{1, 2, 3, math.NaN()}}, "Result.Scores[3]", "float64", "NaN"},
		"infinity":             {&result{Inner: &result{Scores: []float64{math.Inf(-1)}}}, "Result.Inner.Scores[0]", "float64", "-Inf"},
		"float32":              {float32(math.Inf(1)), "Result", "float32", "+Inf"},
		"channel":              {result{Any: make(chan int)}, "Result.Any", "chan int", "a channel"},
		"nil channel":          {struct{ C chan int }{}, "Result.C", "chan int", "a channel"},
		"function":             {map[string]any{"f": func() {}}, `Result["f"]`, "func()", "a function"},
		"complex":              {[]any{1i}, "Result[0]", "complex128", "a complex number"},
		"array":                {result{Arr: [2]any{1, make(chan bool)}}, "Result.Arr[1]", "chan bool", "a channel"},
		"cycle of pointers":    {ring(), "Result.Inner.Inner", "*journal_test.result", "a cycle"},
		"cycle of maps":        {loopMap, `Result["again"]`, "map[string]interface {}", "a cycle"},
		"cycle of slices":      {loopSlice, "Result[0]", "[]interface {}", "a cycle"},
		"map keys":             {result{Any: map[bool]int{true: 1}}, "Result.Any", "map[bool]int", "a map whose keys are of type bool"},
		"map of structs":       {map[struct{}]int{}, "Result", "map[struct {}]int", "a map whose keys are of type struct {}"},
		"map, order of keys":   {map[int]any{2: make(chan int), 1: func() {}}, "Result[1]", "func()", "a function"},
		"key that fails":       {map[keyed]int{{1}: 1}, "Result[{1}]", "journal_test.keyed", "its MarshalText failed: mine: something"},
		"MarshalJSON fails":    {result{Map: map[string]any{"k": []any{failing{errMine}}}}, `Result.Map["k"][0]`, "journal_test.failing", "its MarshalJSON failed"},
		"MarshalJSON panics":   {result{Any: panicked{}}, "Result.Any", "journal_test.panicked", "its MarshalJSON panicked: boom"},
		"MarshalText fails":    {&result{Any: &texty{}}, "Result.Any", "*journal_test.texty", "its MarshalText failed"},
		"MarshalText, address": {&struct{ T texty }{}, "Result.T", "journal_test.texty", "its MarshalText failed"},
		"promoted":             {promoted{}, "Result.holder.Bad", "func()", "a function"},
		"promoted, pointer":    {struct{ *holder }{&holder{}}, "Result.holder.Bad", "func()", "a function"},
		"number":               {json.Number("x1"), "Result", "json.Number", "no number"},
		"raw JSON":             {struct{ R json.RawMessage }{json.RawMessage("{")}, "Result.R", "json.RawMessage", "its MarshalJSON failed"},
		"time":                 {struct{ T time.Time }{time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}, "Result.T", "time.Time", "its MarshalJSON failed"},
		"by node":              {result{ByNode: map[int]*result{7: {Scores: []float64{math.NaN()}}}}, "Result.ByNode[7].Scores[0]", "float64", "NaN"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := journal.Marshal("Result", c.value)
			var fault *journal.NotSerializableError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, c.path, fault.Path)
			require.Equal(t, c.typ, fault.Type)
			require.Contains(t, fault.Reason, c.reason)
			require.ErrorContains(t, err, "pawl: "+c.path+": ")
			require.True(t, fault.Unretryable())
		})
	}
}

func TestAPanicInAMarshalerSaysWhose(t *testing.T) {
	_, err := journal.Marshal("Result", []any{panicked{}})
	var p *journal.PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "MarshalJSON of journal_test.panicked", p.Whose)
	require.Equal(t, "boom", p.Value)
	require.NotEmpty(t, p.Stack)
	require.Equal(t, classifier.Panic, classifier.Default().Classify(err).Class)
	require.ErrorIs(t, &journal.PanicError{Value: errMine}, errMine)
}

func TestAMarshalersErrorIsWrapped(t *testing.T) {
	_, err := journal.Marshal("", failing{errMine})
	require.ErrorIs(t, err, errMine)
	require.ErrorContains(t, err, "pawl: failing: ", "the type's name stands for a root without one")
}

func TestWhatJSONTakesIsMarshaled(t *testing.T) {
	for _, v := range []any{
		nil, 1, "x", result{Topic: "t", private: make(chan int), Hidden: make(chan int)}, &result{Inner: &result{}}, empties{}, []*result{nil, nil},
		map[time.Duration]int{1: 2}, map[string]*texty{"a": nil}, struct{ *holder }{},
	} {
		want, err := json.Marshal(v)
		require.NoError(t, err)
		got, err := journal.Marshal("Result", v)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
	twice := &result{Topic: "shared"}
	_, err := journal.Marshal("Result", []*result{twice, twice})
	require.NoError(t, err, "a shared pointer is no cycle")
}

func TestUnmarshalNamesValueAndType(t *testing.T) {
	var out result
	require.NoError(t, journal.Unmarshal("Result", []byte(`{"topic":"x"}`), &out))
	require.Equal(t, "x", out.Topic)
	err := journal.Unmarshal("Result", []byte(`{"topic":1}`), &out)
	require.ErrorContains(t, err, "pawl: Result as it is stored does not fit journal_test.result")
	require.ErrorAs(t, err, new(*json.UnmarshalTypeError))
	err = journal.Unmarshal("Result", []byte(`{}`), &withBroken{})
	require.ErrorAs(t, err, new(*journal.PanicError))
	require.ErrorAs(t, err, new(*journal.DecodeError))
}

// The happy path is json.Marshal and nothing else.
func TestMarshalAllocatesNoMoreThanJSON(t *testing.T) {
	v := &result{Topic: "x", Scores: []float64{1, 2}}
	floor := testing.AllocsPerRun(200, func() { _, _ = json.Marshal(v) }) //nolint:musttag // as journaled
	require.LessOrEqual(t, testing.AllocsPerRun(200, func() { _, _ = journal.Marshal("Result", v) }), floor)
}

func FuzzMarshal(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), 3)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		var v any
		if json.Unmarshal(raw, &v) != nil {
			return
		}
		_, err := journal.Marshal("v", map[string]any{"x": []any{v, map[string]any{"y": make(chan int)}}})
		var fault *journal.NotSerializableError
		require.ErrorAs(t, err, &fault)
		require.Equal(t, `v["x"][1]["y"]`, fault.Path)
	})
}

func BenchmarkMarshal(b *testing.B) {
	v := &result{Topic: "x", Scores: []float64{1, 2, 3}, Map: map[string]any{"a": 1}}
	b.Run("pawl", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = journal.Marshal("Result", v)
		}
	})
	b.Run("floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(v) //nolint:musttag // as journaled
		}
	})
}
