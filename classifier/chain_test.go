package classifier_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/stretchr/testify/require"
)

// always answers with one class.
func always(class classifier.RunErrorClass) classifier.Func {
	return func(error) classifier.Classification { return classifier.Classification{Class: class} }
}

func panics(v any) classifier.Func {
	return func(error) classifier.Classification { panic(v) }
}

func TestFirstAnswerOtherThanUnknownWins(t *testing.T) {
	err := errors.New("x")
	for _, tc := range []struct {
		name  string
		chain classifier.RunErrorClassifier
		want  classifier.RunErrorClass
	}{
		{"first", classifier.Chain(always(classifier.ToolError), always(classifier.Timeout)), classifier.ToolError},
		{"unknown is no answer", classifier.Chain(always(classifier.Unknown), always(classifier.Timeout)), classifier.Timeout},
		{"a class that is none is no answer", classifier.Chain(always("made up"), always(classifier.Timeout)), classifier.Timeout},
		{"nor is the empty one", classifier.Chain(always(""), always(classifier.Timeout)), classifier.Timeout},
		{"a nil classifier is skipped", classifier.Chain(nil, always(classifier.Timeout)), classifier.Timeout},
		{"none", classifier.Chain(), classifier.Unknown},
		{"all unknown", classifier.Chain(always("made up"), classifier.Default()), classifier.Unknown},
		{"chains nest", classifier.Chain(classifier.Chain(always("")), always(classifier.Timeout)), classifier.Timeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.chain.Classify(err)
			require.Equal(t, tc.want, got.Class)
			require.Equal(t, classifier.Fingerprint("x"), got.Fingerprint, "an empty fingerprint is filled in")
		})
	}
}

func TestChainKeepsItsOwnList(t *testing.T) {
	list := []classifier.RunErrorClassifier{always(classifier.ToolError)}
	c := classifier.Chain(list...)
	list[0] = always(classifier.Timeout)
	require.Equal(t, classifier.ToolError, c.Classify(errors.New("x")).Class)
}

func TestFingerprintOfACustomClassifierIsKept(t *testing.T) {
	mine := classifier.Func(func(error) classifier.Classification {
		return classifier.Classification{Class: classifier.ToolError, Fingerprint: "mine"}
	})
	require.Equal(t, "mine", classifier.Chain(mine).Classify(errors.New("x")).Fingerprint)
	require.Equal(t, "mine", classifier.Guard(mine, nil).Classify(errors.New("x")).Fingerprint)
}

func TestPanickingClassifierIsLoggedAndTheDefaultAnswers(t *testing.T) {
	var zero []int
	for name, c := range map[string]classifier.Func{
		"text":  panics("secret"),
		"error": panics(errors.New("secret")),
		"runtime": func(error) classifier.Classification {
			return classifier.Classification{Class: always("").Classify(nil).Class[len(zero):][5:]}
		},
		"nil": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			guarded := classifier.Guard(c, slog.New(slog.NewTextHandler(&out, nil)))
			require.Equal(t, classifier.Unauthorized, guarded.Classify(A(401)).Class)
			require.Contains(t, out.String(), "classifier panicked")
			require.Contains(t, out.String(), "classifier.Func")
			require.NotContains(t, out.String(), "secret", "the value may hold the error's text")
			if name == "runtime" {
				require.Contains(t, out.String(), "out of range")
			}
			out.Reset()
			chained := classifier.Chain(guarded, always(classifier.Timeout))
			require.Equal(t, classifier.Unauthorized, chained.Classify(A(401)).Class)
		})
	}
}

func TestInAChainTheDefaultAnswersForAPanic(t *testing.T) {
	var out bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	defer slog.SetDefault(old)
	c := classifier.Chain(panics("x"), always(classifier.Timeout))
	require.Equal(t, classifier.Unauthorized, c.Classify(A(401)).Class)
	require.Equal(t, classifier.Unknown, c.Classify(errors.New("x")).Class)
	require.Contains(t, out.String(), "classifier panicked")
}

func TestGuardNormalises(t *testing.T) {
	got := classifier.Guard(always("made up"), nil).Classify(errors.New("x"))
	require.Equal(t, classifier.Unknown, got.Class)
	require.Len(t, got.Fingerprint, 64)
	require.Equal(t, classifier.Unauthorized, classifier.Guard(nil, nil).Classify(A(401)).Class)
}

func TestClassifiersAreSafeForErrorsWhoseMethodsPanic(t *testing.T) {
	c := classifier.Chain(classifier.Default())
	for _, err := range []error{hostile{}, fmt.Errorf("x: %w", hostile{}), errors.Join(newCycle("x"), A(0))} {
		require.NotPanics(t, func() { c.Classify(err) })
	}
}
