package classifier_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

func walk(err error) []error {
	var all []error
	for e := range classifier.Tree(err) {
		all = append(all, e)
	}
	return all
}

func TestTreeGoesOutsideIn(t *testing.T) {
	a, b, c := errors.New("a"), errors.New("b"), errors.New("c")
	inner := fmt.Errorf("%w and %w", b, c)
	root := errors.Join(a, inner)
	require.Equal(t, []error{root, a, inner, b, c}, walk(root))
	require.Empty(t, walk(nil))
}

func TestTreeCanBeLeftEarly(t *testing.T) {
	seen := 0
	for range classifier.Tree(errors.Join(errors.New("a"), errors.New("b"))) {
		seen++
		break
	}
	require.Equal(t, 1, seen)
}

func TestTreeLeavesNilPointersOut(t *testing.T) {
	require.Empty(t, walk((*openai.APIError)(nil)))
	require.Len(t, walk(fmt.Errorf("error, %w", (*openai.APIError)(nil))), 1)
	require.Len(t, walk(&cyclic{errs: []error{nil, (*coded)(nil), errors.New("x")}}), 2)
}

func TestTreeEndsWhateverTheTree(t *testing.T) {
	for name, err := range map[string]error{
		"cycle":         newCycle("x"),
		"endless":       endless{},
		"2^60 paths":    wide(errors.New("leaf")),
		"hostile":       hostile{},
		"wrapped cycle": fmt.Errorf("x: %w", errors.Join(newCycle("x"), hostile{})),
	} {
		t.Run(name, func(t *testing.T) {
			require.NotEmpty(t, walk(err))
			status, ok := classifier.HTTPStatus(err)
			require.Zero(t, status)
			require.False(t, ok)
			require.Equal(t, classifier.Unknown, classifier.Default().Classify(err).Class)
			require.Equal(t, classifier.NoMark, classifier.MarkOf(err))
			require.Empty(t, classifier.UserCode(err))
			require.False(t, classifier.RetryRefused(err))
			_, ok = classifier.RetryHint(err)
			require.False(t, ok)
		})
	}
}

func TestTreeIsReadToItsEnd(t *testing.T) {
	for name, err := range map[string]error{
		"deep":               deep(A(404), 100_000),
		"behind a cycle":     newCycle("x", A(404)),
		"at the end of wide": wide(A(404)),
		"last of many":       errors.Join(append(make([]error, 0, 1001), append(many(1000), A(404))...)...),
	} {
		t.Run(name, func(t *testing.T) {
			status, ok := classifier.PermanentHTTPStatus(err)
			require.True(t, ok)
			require.Equal(t, 404, status)
			require.Equal(t, classifier.InvalidRequest, classifier.Default().Classify(err).Class)
		})
	}
}

func many(n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = fmt.Errorf("error %d", i)
	}
	return errs
}
