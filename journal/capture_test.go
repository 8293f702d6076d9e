package journal_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/stretchr/testify/require"
)

type state struct {
	Topic string
	Notes []string
	Score *float64
	Steps []struct {
		Name string
		N    int
	}
	Any    any
	ByUser map[string]int
	hidden string
}

func TestShapesHaveNoValues(t *testing.T) {
	s := state{Topic: "secret topic", Notes: []string{"a", "b", "secret"}, Any: map[string]any{"secret": 1}, ByUser: map[string]int{"secret": 2}, hidden: "secret"}
	require.Equal(t, "{Topic: string(12), Notes: [3]string, Score: null, Steps: [0]struct { Name string; N int }, Any: map[string]interface {}(1), ByUser: map[string]int(1)}", journal.ShapeOf(s))
	s.Score, s.Any = new(0.5), 3
	s.Steps = append(s.Steps, struct {
		Name string
		N    int
	}{"secret", 1})
	require.Equal(t, "{Topic: string(12), Notes: [3]string, Score: float64, Steps: [1]{Name: string(6), N: int}, Any: int, ByUser: map[string]int(1)}", journal.ShapeOf(&s))
	for value, shape := range map[any]string{nil: "null", 1: "int", "xyz": "string(3)", true: "bool", textError("ab"): "journal_test.textError(2)", struct{}{}: "struct {}"} {
		require.Equal(t, shape, journal.ShapeOf(value))
	}
	require.Less(t, len(journal.ShapeOf(ring())), 2000, "a cycle ends")
}

func TestShapesOfJSON(t *testing.T) {
	for payload, shape := range map[string]string{
		`{"Topic":"secret topic","Notes":["a","b","c"]}`: "{Topic: string(12), Notes: [3]string(1)}",
		`[]`: "[0]", `[1,2]`: "[2]number", `null`: "null", `true`: "bool", `"héé"`: "string(5)", `-1.5e3`: "number", `{}`: "{}",
		`[{"a":[{"b":null}]},5]`:                    "[2]{a: [1]{b: null}}",
		`{"a b":1,"c":2,"someone@example.com":"x"}`: "{c: number, 2 more}",
		`{"0":1}`: "{1 more}", ``: "no JSON (0 bytes)", `{"a":`: "no JSON (5 bytes)", `{} {}`: "no JSON (5 bytes)", `secret`: "no JSON (6 bytes)",
	} {
		require.Equal(t, shape, journal.ShapeOfJSON([]byte(payload)), payload)
	}
	require.Less(t, len(journal.ShapeOfJSON([]byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))), 1000)
	require.Less(t, len(journal.ShapeOfJSON([]byte("{"+strings.Repeat(`"a":{"b":1},`, 5000)+`"c":1}`))), 10_000)
}

func TestCaptureLevels(t *testing.T) {
	for c, full := range map[journal.Capture]bool{"": true, journal.CaptureFull: true, journal.CaptureShapes: false} {
		require.NoError(t, c.Validate())
		require.Equal(t, full, c.Full())
		require.Equal(t, full, strings.Contains(string(c.JSON([]byte(`{"a":"secret"}`))), "secret"))
		require.True(t, json.Valid(c.JSON([]byte(`{"a":"secret"}`))))
		require.Equal(t, full, c.Text("secret") == "secret")
	}
	err := journal.Capture("some").Validate()
	require.ErrorAs(t, err, new(*journal.CaptureError))
	require.EqualError(t, err, `pawl: capture "some" is no level: use "full" or "shapes"`)
	require.False(t, journal.Capture("some").Full(), "what is not understood shows nothing")
}

func TestClassesCodesAndUserCodesStayAtEveryLevel(t *testing.T) {
	rec := record(classifier.Poison(A(422), classifier.Code("card.declined")))
	require.Same(t, rec, journal.CaptureFull.Error(rec))
	shape := journal.CaptureShapes.Error(rec)
	require.Equal(t, rec.ErrorFacts, shape.ErrorFacts)
	require.Equal(t, "card.declined", shape.UserCode)
	require.Equal(t, rec.Type, shape.Type)
	for name, err := range realErrors() {
		rec := record(err)
		shape := journal.CaptureShapes.Error(rec)
		require.Empty(t, shape.Value, name)
		require.Equal(t, rec.ErrorFacts, shape.ErrorFacts)
		if len(err.Error()) > 15 {
			require.NotContains(t, asJSON(t, shape), err.Error())
		}
	}
}

func FuzzShapeOfJSON(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":"secret"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.Less(t, len(journal.ShapeOfJSON(raw)), 40_000)
	})
}
