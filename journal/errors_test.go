package journal_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-go/pawl/journal"
)

func TestErrorsMatchTheirSentinelsAndSayWhatAndWhere(t *testing.T) {
	until := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	all := []error{
		journal.ErrNotFound, journal.ErrExists, journal.ErrLocked, journal.ErrFenced, journal.ErrEnded, journal.ErrConflict,
		journal.ErrUnavailable, journal.ErrCorrupt,
	}
	for _, c := range []struct {
		err  error
		is   []error
		text string
	}{
		{&journal.NotFoundError{Run: "a\n'b"}, []error{journal.ErrNotFound}, `pawl: run "a\n'b": run not found: check the id, and that this is the store it was started in`},
		{&journal.ExistsError{Run: "r"}, []error{journal.ErrExists}, `pawl: run "r": run exists already`},
		{
			&journal.LockedError{Run: "r", Owner: "host-1", Until: until},
			[]error{journal.ErrLocked}, `pawl: run "r": run is held by another owner (host-1, until 2026-06-01T12:00:00Z unless it renews its lease)`,
		},
		{&journal.RefusedError{Run: "r", Reason: journal.ErrFenced}, []error{journal.ErrFenced}, `pawl: run "r": write refused: lease lost`},
		{
			&journal.RefusedError{Run: "r", Reason: journal.ErrEnded, Detail: "it is failed"},
			[]error{journal.ErrEnded}, `pawl: run "r": write refused: run has ended: it is failed`,
		},
		{&journal.UnavailableError{Op: "append", Err: io.EOF}, []error{journal.ErrUnavailable, io.EOF}, `pawl: store unavailable: append: EOF`},
		{
			&journal.UnavailableError{Op: "append", Unknown: true, Err: io.EOF},
			[]error{journal.ErrUnavailable, io.EOF}, `pawl: store unavailable: append, with unknown outcome: EOF`,
		},
		{
			&journal.CorruptError{Run: "r", Seq: 7, Err: io.ErrUnexpectedEOF},
			[]error{journal.ErrCorrupt, io.ErrUnexpectedEOF}, `pawl: run "r": event 7: journal corrupt: unexpected EOF: restore the store from a backup`,
		},
	} {
		t.Run(fmt.Sprintf("%T", c.err), func(t *testing.T) {
			assert.Equal(t, c.text, c.err.Error())
			for _, target := range append(all, io.EOF, io.ErrUnexpectedEOF) {
				assert.Equal(t, slices.Contains(c.is, target), errors.Is(fmt.Errorf("wrapped: %w", c.err), target), "%v", target)
			}
		})
	}
}

func TestALongIDIsCutInMessages(t *testing.T) {
	long := strings.Repeat("x", journal.MaxIDLength)
	for _, err := range []error{
		&journal.NotFoundError{Run: long}, &journal.ExistsError{Run: long}, &journal.LockedError{Run: long},
		&journal.RefusedError{Run: long, Reason: journal.ErrEnded}, &journal.CorruptError{Run: long, Err: io.EOF},
	} {
		assert.Less(t, len(err.Error()), 400, "%T", err)
		assert.Contains(t, err.Error(), "(65536 bytes)", "%T", err)
	}
}
