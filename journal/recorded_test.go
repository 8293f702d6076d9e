package journal_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/pawl-go/pawl/superstep"
	"github.com/pawl-go/pawl/task"
	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// record records an error as the executor does.
func record(err error) *journal.ErrorRecord {
	status, _ := classifier.HTTPStatus(err)
	return journal.RecordError(err, journal.ErrorFacts{
		Class: string(classifier.Default().Classify(err).Class), UserCode: classifier.UserCode(err),
		Mark: string(classifier.MarkOf(err)), Status: status,
	})
}

// replayed is the error that a replay gives: it went through JSON.
func replayed(t *testing.T, err error) error {
	t.Helper()
	raw, jerr := json.Marshal(record(err))
	require.NoError(t, jerr)
	var rec journal.ErrorRecord
	require.NoError(t, json.Unmarshal(raw, &rec))
	return rec.Err()
}

// targets are what errors.Is is asked for.
func targets(all map[string]error) map[string]error {
	out := map[string]error{
		"Errno ECONNREFUSED": syscall.ECONNREFUSED, "Errno ENOSPC": syscall.ENOSPC, "Errno EPERM": syscall.EPERM,
		"fs.ErrNotExist": fs.ErrNotExist, "fs.ErrExist": fs.ErrExist, "fs.ErrPermission": fs.ErrPermission, "fs.ErrClosed": fs.ErrClosed,
		"fs.ErrInvalid": fs.ErrInvalid, "net.ErrClosed": net.ErrClosed, "os.ErrDeadlineExceeded": os.ErrDeadlineExceeded,
		"http.ErrAbortHandler": http.ErrAbortHandler, "strconv.ErrSyntax": strconv.ErrSyntax, "strconv.ErrRange": strconv.ErrRange,
		"exec.ErrNotFound": exec.ErrNotFound, "errors.ErrUnsupported": errors.ErrUnsupported, "io.ErrShortWrite": io.ErrShortWrite,
		"codeError 5": codeError{5}, "codeError 6": codeError{6}, "codeError 99": codeError{99}, "numberError -3": numberError(-3), "numberError 4": numberError(4),
		"textError": textError("other"), "generic 4": genericError[int]{4}, "generic codeError": genericError[codeError]{codeError{4}},
		"matching k": &matching{Kind: "k"}, "matching other": &matching{Kind: "o", Detail: "d"}, "errTyped": errTyped, "errMine": errMine,
		"other text": errors.New("some other text"), "codeError as pointer": &codeError{1234},
		"classifier.CodeError": &classifier.CodeError{Code: "zzzz"},
	}
	for name, err := range all {
		// A pointer to a struct is equal to itself only, and a record cannot know which pointers are package-level values.
		if reflect.TypeOf(err).Comparable() {
			out["the error "+name] = err
		}
	}
	return out
}

// question asks errors.As for one type.
type question struct {
	name string
	ask  func(error) (any, bool)
}

func as[T any]() question {
	return question{reflect.TypeFor[T]().String(), func(err error) (any, bool) {
		var target T
		ok := errors.As(err, &target)
		return target, ok
	}}
}

func questions() []question {
	return []question{
		as[*openai.APIError](), as[*openai.RequestError](), as[*url.Error](), as[*net.OpError](), as[*net.DNSError](), as[*net.AddrError](), as[*net.ParseError](),
		as[net.UnknownNetworkError](), as[net.InvalidAddrError](), as[*fs.PathError](), as[*os.LinkError](), as[*os.SyscallError](), as[syscall.Errno](),
		as[*exec.Error](), as[*exec.ExitError](), as[*strconv.NumError](), as[*json.SyntaxError](), as[*json.UnmarshalTypeError](),
		as[*json.UnsupportedTypeError](), as[*json.MarshalerError](), as[*time.ParseError](), as[tls.RecordHeaderError](), as[*tls.RecordHeaderError](),
		as[tls.AlertError](), as[*tls.CertificateVerificationError](), as[x509.UnknownAuthorityError](), as[x509.CertificateInvalidError](), as[x509.SystemRootsError](), as[x509.HostnameError](),
		as[*http.MaxBytesError](), as[*retrypolicy.AttemptsError](), as[*retrypolicy.TimeoutError](), as[*retrypolicy.FieldError](), as[*superstep.NodeError](),
		as[*superstep.CatchError](), as[*superstep.MaxSuperStepsError](), as[*superstep.RouteError](), as[*superstep.ReduceError](), as[*superstep.RunTimeoutError](),
		as[*graph.ConflictError](), as[*task.PanicError](), as[*providers.CallError](), as[*providers.ProviderUnavailableError](), as[*providers.FallbackError](), as[*providers.ConfigError](),
		as[*classifier.CodeError](), as[*journal.NotSerializableError](), as[*journal.PanicError](), as[codeError](), as[*codeError](), as[textError](), as[*textError](), as[numberError](), as[listError](),
		as[mapError](), as[*wrapsError](), as[*secretError](), as[genericError[int]](), as[genericError[string]](), as[genericError[codeError]](), as[*embedding](), as[*liveError](),
		as[*matching](), as[*asking](), as[*kinds](), as[*coded](), as[*sentinelErr](), as[*nested](),
		as[net.Error](), as[interface{ Timeout() bool }](), as[interface{ Temporary() bool }](), as[interface{ HTTPStatusCode() int }](),
		as[interface {
			error
			Timeout() bool
		}](), as[classifier.HTTPStatusCoder](), as[interface {
			net.Error
			HTTPStatusCode() int
		}](),
	}
}

func TestIsAnswersTheSameBeforeAndAfterReplay(t *testing.T) {
	all := realErrors()
	require.GreaterOrEqual(t, len(all), 60)
	for name, err := range all {
		t.Run(name, func(t *testing.T) {
			back := replayed(t, err)
			for asked, target := range targets(all) {
				require.Equal(t, errors.Is(err, target) || sameButForThePointer(err, target), errors.Is(back, target), "errors.Is for %s", asked)
			}
		})
	}
}

// sameButForThePointer is the documented exception: a pointer matches by type and text.
func sameButForThePointer(err, target error) bool {
	if reflect.TypeOf(target).Kind() != reflect.Pointer {
		return false
	}
	for e := range classifier.Tree(err) {
		if reflect.TypeOf(e) == reflect.TypeOf(target) && e.Error() == target.Error() {
			return true
		}
	}
	return false
}

func TestAsAnswersTheSameBeforeAndAfterReplay(t *testing.T) {
	for name, err := range realErrors() {
		t.Run(name, func(t *testing.T) {
			back := replayed(t, err)
			require.Equal(t, err.Error(), back.Error())
			for _, q := range questions() {
				was, matched := q.ask(err)
				is, matches := q.ask(back)
				require.Equal(t, matched, matches, "errors.As for %s", q.name)
				if matched {
					sameAnswers(t, was, is)
				}
			}
			var rec *journal.RecordedError
			require.ErrorAs(t, back, &rec)
		})
	}
}

// sameAnswers compares what errors.As gave through the methods that errors have.
func sameAnswers(t *testing.T, was, is any) {
	t.Helper()
	if a, has := was.(interface{ Timeout() bool }); has {
		if _, isFace := is.(error); isFace {
			assert.Equal(t, a.Timeout(), is.(interface{ Timeout() bool }).Timeout())
		}
	}
	if a, has := was.(interface{ Temporary() bool }); has {
		assert.Equal(t, a.Temporary(), is.(interface{ Temporary() bool }).Temporary())
	}
	if a, has := was.(interface{ HTTPStatusCode() int }); has {
		assert.Equal(t, a.HTTPStatusCode(), is.(interface{ HTTPStatusCode() int }).HTTPStatusCode())
	}
}

func TestClassifierAnswersTheSameBeforeAndAfterReplay(t *testing.T) {
	for name, err := range realErrors() {
		t.Run(name, func(t *testing.T) {
			back := replayed(t, err)
			sameClassifierAnswers(t, err, back)
			sameClassifierAnswers(t, fmt.Errorf("around: %w", err), fmt.Errorf("around: %w", back))
			never := classifier.Guard(classifier.Func(func(error) classifier.Classification {
				t.Error("a classifier was asked again")
				return classifier.Classification{}
			}), nil)
			require.Equal(t, classifier.Default().Classify(err).Class, never.Classify(back).Class, "seed: the retry policy is not consulted")
		})
	}
}

// What is inside a recorded error was not classified by itself: the rules still find what they found.
func TestRulesReadErrorsInsideARecordedOne(t *testing.T) {
	for name, err := range realErrors() {
		t.Run(name, func(t *testing.T) {
			rec := record(fmt.Errorf("outer: %w", err))
			raw, jerr := json.Marshal(rec)
			require.NoError(t, jerr)
			var back journal.ErrorRecord
			require.NoError(t, json.Unmarshal(raw, &back))
			inner := errors.Unwrap(back.Err())
			require.Equal(t, err.Error(), inner.Error())
			sameClassifierAnswers(t, err, inner)
		})
	}
}

func sameClassifierAnswers(t *testing.T, was, is error) {
	t.Helper()
	require.Equal(t, classifier.Default().Classify(was), classifier.Default().Classify(is))
	require.Equal(t, classifier.MarkOf(was), classifier.MarkOf(is))
	require.Equal(t, classifier.UserCode(was), classifier.UserCode(is))
	require.Equal(t, classifier.Message(was), classifier.Message(is))
	require.Equal(t, classifier.RetryRefused(was), classifier.RetryRefused(is))
	for _, f := range []func(error) (int, bool){classifier.HTTPStatus, classifier.PermanentHTTPStatus} {
		s1, ok1 := f(was)
		s2, ok2 := f(is)
		require.Equal(t, s1, s2)
		require.Equal(t, ok1, ok2)
	}
	h1, ok1 := classifier.RetryHint(was)
	h2, ok2 := classifier.RetryHint(is)
	require.Equal(t, h1, h2)
	require.Equal(t, ok1, ok2)
}
