package classifier_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/stretchr/testify/require"
)

func TestMarksKeepTheError(t *testing.T) {
	cause := errors.New("card rejected")
	for want, mark := range map[classifier.Mark]func(error, ...classifier.MarkOption) error{
		classifier.MarkTransient: classifier.Transient,
		classifier.MarkPoison:    classifier.Poison,
		classifier.MarkFatal:     classifier.Fatal,
	} {
		err := mark(cause)
		require.ErrorIs(t, err, cause)
		require.Same(t, cause, errors.Unwrap(err))
		require.Equal(t, cause.Error(), err.Error())
		require.Equal(t, want, classifier.MarkOf(err))
		require.Empty(t, classifier.UserCode(err))
		require.NoError(t, mark(nil), "a mark of nothing is nothing")
		require.NoError(t, mark(nil, classifier.Code("x")))

		err = fmt.Errorf("node: %w", mark(cause, classifier.Code("card.declined")))
		require.Equal(t, want, classifier.MarkOf(err))
		require.Equal(t, "card.declined", classifier.UserCode(err))
	}
	require.Equal(t, classifier.NoMark, classifier.MarkOf(cause))
	require.Equal(t, classifier.NoMark, classifier.MarkOf(nil))
	require.Empty(t, classifier.UserCode(nil))
}

func TestOutermostMarkOfAPathCounts(t *testing.T) {
	x := errors.New("x")
	poison := classifier.Poison(x, classifier.Code("poison"))
	transient := classifier.Transient(x, classifier.Code("transient"))
	fatal := classifier.Fatal(x, classifier.Code("fatal"))
	for _, tc := range []struct {
		name string
		err  error
		mark classifier.Mark
		code string
	}{
		{"transient around poison", classifier.Transient(poison), classifier.MarkTransient, "poison"},
		{"poison around transient", classifier.Poison(transient, classifier.Code("p")), classifier.MarkPoison, "p"},
		{"with errors between", classifier.Transient(fmt.Errorf("a: %w", poison)), classifier.MarkTransient, "poison"},
		{"join: poison beats transient", errors.Join(transient, poison), classifier.MarkPoison, "poison"},
		{"join: whatever the order", errors.Join(poison, transient), classifier.MarkPoison, "poison"},
		{"join: fatal beats transient", errors.Join(transient, fatal), classifier.MarkFatal, "fatal"},
		{"join: fatal beats poison", errors.Join(poison, fatal), classifier.MarkFatal, "fatal"},
		{"join: no mark gives way", errors.Join(x, transient), classifier.MarkTransient, "transient"},
		{"join: the first of equals", errors.Join(poison, classifier.Poison(x, classifier.Code("2"))), classifier.MarkPoison, "poison"},
		{"a mark around a join", classifier.Transient(errors.Join(poison, fatal)), classifier.MarkTransient, "fatal"},
		{
			"each path by itself",
			errors.Join(classifier.Transient(fatal), classifier.Poison(transient)), classifier.MarkPoison, "transient",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.mark, classifier.MarkOf(tc.err))
			require.Equal(t, tc.code, classifier.UserCode(tc.err))
		})
	}
}

func TestCodes(t *testing.T) {
	for code, ok := range map[string]bool{
		"card.declined":            true,
		"a":                        true,
		"A-Z_a-z.0-9:":             true,
		strings.Repeat("a", 64):    true,
		"":                         false,
		strings.Repeat("a", 65):    false,
		"card declined":            false,
		"card/declined":            false,
		"käse":                     false,
		"a\n":                      false,
		"a\x00":                    false,
		strings.Repeat("ab ", 1e6): false,
	} {
		err := classifier.Poison(errors.New("x"), classifier.Code(code))
		require.Equal(t, classifier.MarkPoison, classifier.MarkOf(err), "the mark stands")
		var bad *classifier.CodeError
		require.Equal(t, !ok, errors.As(err, &bad))
		if ok {
			require.Equal(t, code, classifier.UserCode(err))
			continue
		}
		require.Equal(t, code, bad.Code)
		require.Empty(t, classifier.UserCode(err))
		require.Contains(t, err.Error(), "x (pawl: user code ")
		require.Less(t, len(err.Error()), 500)
	}
}

func TestTheLastCodeCounts(t *testing.T) {
	err := classifier.Fatal(errors.New("x"), classifier.Code("bad one"), classifier.Code("two"))
	require.Equal(t, "two", classifier.UserCode(err))
}

// recorded is an error of another package that carries a mark.
type recorded struct {
	mark classifier.Mark
	code string
}

func (recorded) Error() string                          { return "recorded" }
func (r recorded) RetryMark() (classifier.Mark, string) { return r.mark, r.code }

type panickyMark struct{ error }

func (panickyMark) RetryMark() (classifier.Mark, string) { panic("RetryMark") }

func TestMarksOfOtherPackages(t *testing.T) {
	err := fmt.Errorf("x: %w", recorded{classifier.MarkFatal, "code"})
	require.Equal(t, classifier.MarkFatal, classifier.MarkOf(err))
	require.Equal(t, "code", classifier.UserCode(err))

	require.Empty(t, classifier.UserCode(recorded{classifier.MarkFatal, "no code"}), "a bad code is none")
	require.Equal(t, classifier.NoMark, classifier.MarkOf(recorded{"deadly", "code"}), "an unknown mark is none")
	require.Equal(t, classifier.NoMark, classifier.MarkOf(panickyMark{errors.New("x")}))
}

func TestABadUserCodeIsNotReadAsAStatus(t *testing.T) {
	for _, mark := range []func(error, ...classifier.MarkOption) error{classifier.Transient, classifier.Poison, classifier.Fatal} {
		err := mark(io.EOF, classifier.Code("HTTP 404"))
		_, permanent := classifier.PermanentHTTPStatus(err)
		require.False(t, permanent)
		require.NotContains(t, err.Error(), "404", "a bad code may be data")
	}
}
