package journal

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// sentinel is an error value that callers compare with, and its name in records.
type sentinel struct {
	name string
	err  error
}

// sentinels are the error values whose errors.Is answers are recorded. A record holds how many of them were asked for, so
// the list may only grow at its end. It is read only.
var sentinels = [...]sentinel{ //nolint:gochecknoglobals // a table that nothing writes to
	{"context.Canceled", context.Canceled},
	{"context.DeadlineExceeded", context.DeadlineExceeded},
	{"errors.ErrUnsupported", errors.ErrUnsupported},
	{"io.EOF", io.EOF},
	{"io.ErrUnexpectedEOF", io.ErrUnexpectedEOF},
	{"io.ErrClosedPipe", io.ErrClosedPipe},
	{"io.ErrNoProgress", io.ErrNoProgress},
	{"io.ErrShortBuffer", io.ErrShortBuffer},
	{"io.ErrShortWrite", io.ErrShortWrite},
	{"fs.ErrInvalid", fs.ErrInvalid},
	{"fs.ErrPermission", fs.ErrPermission},
	{"fs.ErrExist", fs.ErrExist},
	{"fs.ErrNotExist", fs.ErrNotExist},
	{"fs.ErrClosed", fs.ErrClosed},
	{"fs.SkipDir", fs.SkipDir},
	{"fs.SkipAll", fs.SkipAll},
	{"os.ErrNoDeadline", os.ErrNoDeadline},
	{"os.ErrDeadlineExceeded", os.ErrDeadlineExceeded},
	{"os.ErrProcessDone", os.ErrProcessDone},
	{"exec.ErrNotFound", exec.ErrNotFound},
	{"exec.ErrDot", exec.ErrDot},
	{"exec.ErrWaitDelay", exec.ErrWaitDelay},
	{"net.ErrClosed", net.ErrClosed},
	{"net.ErrWriteToConnected", net.ErrWriteToConnected},
	{"http.ErrAbortHandler", http.ErrAbortHandler},
	{"http.ErrBodyNotAllowed", http.ErrBodyNotAllowed},
	{"http.ErrBodyReadAfterClose", http.ErrBodyReadAfterClose},
	{"http.ErrContentLength", http.ErrContentLength},
	{"http.ErrHandlerTimeout", http.ErrHandlerTimeout},
	{"http.ErrHijacked", http.ErrHijacked},
	{"http.ErrLineTooLong", http.ErrLineTooLong},
	{"http.ErrMissingFile", http.ErrMissingFile},
	{"http.ErrNoCookie", http.ErrNoCookie},
	{"http.ErrNoLocation", http.ErrNoLocation},
	{"http.ErrNotSupported", http.ErrNotSupported},
	{"http.ErrSchemeMismatch", http.ErrSchemeMismatch},
	{"http.ErrServerClosed", http.ErrServerClosed},
	{"http.ErrUseLastResponse", http.ErrUseLastResponse},
	{"sql.ErrConnDone", sql.ErrConnDone},
	{"sql.ErrNoRows", sql.ErrNoRows},
	{"sql.ErrTxDone", sql.ErrTxDone},
	{"driver.ErrBadConn", driver.ErrBadConn},
	{"driver.ErrSkip", driver.ErrSkip},
	{"strconv.ErrRange", strconv.ErrRange},
	{"strconv.ErrSyntax", strconv.ErrSyntax},
	{"bufio.ErrTooLong", bufio.ErrTooLong},
	{"bufio.ErrBufferFull", bufio.ErrBufferFull},
	{"filepath.ErrBadPattern", filepath.ErrBadPattern},
}

// sentinelIndex returns the place of err itself in the list, or -1.
func sentinelIndex(err error) int {
	for i := range sentinels {
		if sentinels[i].err == err { //nolint:errorlint // the value itself is meant, not what it wraps
			return i
		}
	}
	return -1
}

// sentinelNamed returns the sentinel of a name, nil if there is none.
func sentinelNamed(name string) error {
	for i := range sentinels {
		if sentinels[i].name == name {
			return sentinels[i].err
		}
	}
	return nil
}

// sentinelNames returns the names of those that err is, by itself and not by what it wraps, and its own name if it is one
// of them.
func sentinelNames(err error) (names []string, same string) {
	is, asks := err.(interface{ Is(target error) bool })
	for i := range sentinels {
		s := &sentinels[i]
		if s.err == err { //nolint:errorlint // the same
			names, same = append(names, s.name), s.name
			continue
		}
		if asks && ask(func() bool { return is.Is(s.err) }) {
			names = append(names, s.name)
		}
	}
	return names, same
}
