package sqlite_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// rich is a run with rows of one and of several events, and returns the numbers of the first event of each.
func rich(tb testing.TB, s journal.Store) (firsts []int64) {
	tb.Helper()
	l := held(tb, s, "r")
	firsts = append(firsts, 1)
	after := int64(1)
	for n := range 8 {
		var events []journal.Event
		for i := range 1 + n%3 {
			events = append(events, journal.Event{
				Kind: journal.StepDone, Scope: "3/search[2]", Name: "fetch", N: i + 1, Time: time.UnixMicro(1750000000123456).UTC(),
				Took: time.Second, Attempts: 2, Meta: []byte(`{"model":"m"}`), Payload: []byte(`"some result"`),
			})
		}
		require.NoError(tb, s.Append(tb.Context(), l, journal.Append{After: after, Events: events}))
		firsts = append(firsts, after+1)
		after += int64(len(events))
	}
	return firsts
}

// Any changed byte of a row is found, and the error names the run and the first event of the row.
func FuzzAChangedByteOfARow(f *testing.F) {
	path := file(f)
	s := open(f, path)
	firsts := rich(f, s)
	whole := read(f, s, "r")
	db := attach(f, path)
	_, err := db.Exec("PRAGMA synchronous = OFF")
	require.NoError(f, err)
	for i := range 40 {
		f.Add(uint8(i), uint16(i*7), uint8(1<<(i%8)))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, change uint8) {
		first := firsts[int(which)%len(firsts)]
		var row []byte
		require.NoError(t, db.QueryRow("SELECT row FROM events WHERE run = 1 AND seq = ?", first).Scan(&row))
		bad := append([]byte(nil), row...)
		bad[int(at)%len(bad)] ^= change | 1
		write := func(row []byte) {
			_, err := db.Exec("UPDATE events SET row = ? WHERE run = 1 AND seq = ?", row, first)
			require.NoError(t, err)
		}
		write(bad)
		var got []journal.Event
		var err error
		for e, fault := range s.Events(t.Context(), "r", 0) {
			if err = fault; err == nil {
				got = append(got, e)
			}
		}
		write(row)
		var corrupt *journal.CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, "r", corrupt.Run)
		require.Equal(t, first, corrupt.Seq)
		require.Len(t, got, int(first-1))
		require.Equal(t, whole[:first-1], append([]journal.Event{}, got...))
	})
}

// Whatever byte of the file is changed: no panic, and no event that was not written.
func FuzzAChangedByteOfTheFile(f *testing.F) {
	path := file(f)
	s, err := sqlite.Open(path)
	require.NoError(f, err)
	rich(f, s)
	whole := read(f, s, "r")
	require.NoError(f, s.Close())
	data, err := os.ReadFile(path)
	require.NoError(f, err)
	for i := range 60 {
		f.Add(uint32(i*977), uint8(1<<(i%8)))
	}
	f.Fuzz(func(t *testing.T, at uint32, change uint8) {
		bad := append([]byte(nil), data...)
		bad[int(at)%len(bad)] ^= change | 1
		path := file(t)
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		s, err := sqlite.Open(path, sqlite.BusyTimeout(0))
		if err != nil {
			require.ErrorContains(t, err, path)
			return
		}
		defer s.Close()
		var got []journal.Event
		for e, err := range s.Events(t.Context(), "r", 0) {
			if err != nil {
				require.ErrorContains(t, err, "pawl: ")
				break
			}
			got = append(got, e)
		}
		require.LessOrEqual(t, len(got), len(whole))
		if len(got) > 0 {
			require.Equal(t, whole[:len(got)], got)
		}
	})
}
