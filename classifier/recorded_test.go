package classifier_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"
)

// replayed is an error as a journal gives it back.
func replayed(err error, facts journal.ErrorFacts) error {
	return journal.RecordError(err, facts).Err()
}

func TestARecordedClassStands(t *testing.T) {
	asked := 0
	mine := classifier.Func(func(error) classifier.Classification {
		asked++
		return classifier.Classification{Class: classifier.ToolError}
	})
	for _, class := range []classifier.RunErrorClass{classifier.ToolBlocked, classifier.Unknown, classifier.Timeout} {
		err := replayed(A(503), journal.ErrorFacts{Class: string(class)})
		for _, c := range []classifier.RunErrorClassifier{
			classifier.Default(), classifier.Guard(mine, nil), classifier.Chain(mine, classifier.Default()),
		} {
			got := c.Classify(err)
			require.Equal(t, class, got.Class)
			require.Equal(t, classifier.Fingerprint("error, status code: 503, status: , message: x"), got.Fingerprint)
		}
	}
	require.Zero(t, asked)
	wrapped := fmt.Errorf("x: %w", replayed(A(503), journal.ErrorFacts{Class: "tool_blocked"}))
	require.Equal(t, classifier.ToolBlocked, classifier.Default().Classify(wrapped).Class)
	require.Equal(t, classifier.ToolError, classifier.Guard(mine, nil).Classify(wrapped).Class, "what wraps it is a new error")
}

func TestAClassThatIsNoneDoesNotCountAsRecorded(t *testing.T) {
	require.Equal(t, classifier.ProviderError, classifier.Default().Classify(replayed(A(503), journal.ErrorFacts{Class: "mine"})).Class)
	require.Equal(t, classifier.ProviderError, classifier.Default().Classify(replayed(A(503), journal.ErrorFacts{})).Class)
	require.Equal(t, classifier.Unknown, classifier.Default().Classify((*journal.RecordedError)(nil)).Class)
}

// Without recorded facts the rules find what they find in the first error.
func TestRulesLookThroughARecord(t *testing.T) {
	for _, err := range append(typical(),
		R(400, nil, `{"message":"x"}`), R(429, A(0), "HTTP 404"), fmt.Errorf("x: %w", R(503, nil, "HTTP 404")), syscall.ECONNRESET,
		&net.DNSError{Err: "i/o timeout", IsTimeout: true}, &task.PanicError{Whose: "tool"}, &openai.APIError{Code: 502}, openai.ErrChatCompletionInvalidModel,
		classifier.Poison(errors.New("x"), classifier.Code("a.b")), &coded{status: 404}, &coded{status: 7}, fmt.Errorf("x, %w", (*openai.APIError)(nil)),
	) {
		back := replayed(err, journal.ErrorFacts{})
		require.Equal(t, classifier.Default().Classify(err), classifier.Default().Classify(back), "%v", err)
		require.Equal(t, classifier.Message(err), classifier.Message(back))
		require.Equal(t, classifier.MarkOf(err), classifier.MarkOf(back))
		require.Equal(t, classifier.UserCode(err), classifier.UserCode(back))
		status, ok := classifier.HTTPStatus(err)
		gotStatus, gotOK := classifier.HTTPStatus(back)
		require.Equal(t, status, gotStatus, "%v", err)
		require.Equal(t, ok, gotOK)
	}
}

func TestRecordedMarkAndStatusCount(t *testing.T) {
	err := replayed(errors.New("x"), journal.ErrorFacts{Mark: "fatal", UserCode: "a.b", Status: 422})
	require.Equal(t, classifier.MarkFatal, classifier.MarkOf(err))
	require.Equal(t, "a.b", classifier.UserCode(err))
	status, permanent := classifier.PermanentHTTPStatus(err)
	require.True(t, permanent)
	require.Equal(t, 422, status)
	bad := replayed(errors.New("x"), journal.ErrorFacts{Mark: "fatal", UserCode: "no code!", Status: 7})
	require.Empty(t, classifier.UserCode(bad))
	_, ok := classifier.HTTPStatus(bad)
	require.False(t, ok)
}

// panickyRecord is a record of somebody else's making.
type panickyRecord struct{ path string }

func (panickyRecord) Error() string                  { return "HTTP 404" }
func (panickyRecord) RecordedClass() string          { panic("RecordedClass") }
func (p panickyRecord) RecordedType() string         { return p.path }
func (panickyRecord) RecordedMark() (string, string) { panic("RecordedMark") }
func (panickyRecord) RecordedStatus() int            { panic("RecordedStatus") }
func (p panickyRecord) As(any) bool {
	if p.path == "syscall.Errno" {
		return false
	}
	panic("As")
}

func TestARecordThatPanicsHasNothingToSay(t *testing.T) {
	for _, path := range []string{
		"", "*errors.errorString", "syscall.Errno", "*net.OpError", "*encoding/json.UnsupportedTypeError", "*encoding/json.UnsupportedValueError",
		"*encoding/json.MarshalerError", "*encoding/json.UnmarshalTypeError", "*github.com/sashabaranov/go-openai.APIError",
	} {
		err := panickyRecord{path}
		require.Equal(t, classifier.InvalidRequest, classifier.Default().Classify(err).Class)
		require.Equal(t, classifier.NoMark, classifier.MarkOf(err))
		status, _ := classifier.PermanentHTTPStatus(err)
		require.Equal(t, 404, status)
	}
}
