package journal

// The types below are a RecordedError with some of the methods Timeout, Temporary and HTTPStatusCode. One value is given to
// an interface, and must have just those that the recorded error had: a type assertion then answers as it did before.
type (
	timeouter   struct{ is bool }
	temporarier struct{ is bool }
	httpStatus  struct{ code int }
)

func (t timeouter) Timeout() bool        { return t.is }
func (t temporarier) Temporary() bool    { return t.is }
func (s httpStatus) HTTPStatusCode() int { return s.code }

type (
	withTimeout struct { //nolint:errname // a RecordedError with more methods; nobody sees the names
		*RecordedError
		timeouter
	}
	withTemporary struct { //nolint:errname // the same
		*RecordedError
		temporarier
	}
	withStatus struct { //nolint:errname // the same
		*RecordedError
		httpStatus
	}
	withTimeoutTemporary struct { //nolint:errname // the same
		*RecordedError
		timeouter
		temporarier
	}
	withTimeoutStatus struct { //nolint:errname // the same
		*RecordedError
		timeouter
		httpStatus
	}
	withTemporaryStatus struct { //nolint:errname // the same
		*RecordedError
		temporarier
		httpStatus
	}
	withAll struct { //nolint:errname // the same
		*RecordedError
		timeouter
		temporarier
		httpStatus
	}
)

// withFacets returns the error with the methods that the recorded one had.
func (e *RecordedError) withFacets() error {
	rec := e.Record()
	timeout, temporary := timeouter{isTrue(rec.Timeout)}, temporarier{isTrue(rec.Temporary)}
	var status httpStatus
	if rec.HTTPStatus != nil {
		status.code = *rec.HTTPStatus
	}
	switch [3]bool{rec.Timeout != nil, rec.Temporary != nil, rec.HTTPStatus != nil} {
	case [3]bool{true, false, false}:
		return withTimeout{e, timeout}
	case [3]bool{false, true, false}:
		return withTemporary{e, temporary}
	case [3]bool{false, false, true}:
		return withStatus{e, status}
	case [3]bool{true, true, false}:
		return withTimeoutTemporary{e, timeout, temporary}
	case [3]bool{true, false, true}:
		return withTimeoutStatus{e, timeout, status}
	case [3]bool{false, true, true}:
		return withTemporaryStatus{e, temporary, status}
	case [3]bool{true, true, true}:
		return withAll{e, timeout, temporary, status}
	}
	return e
}
