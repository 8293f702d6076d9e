package journal_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

// batch is a row's worth of events: with everything, with nothing, and at the ends of the ranges.
func batch() []journal.Event {
	return []journal.Event{
		{
			Kind: journal.StepDone, Scope: "3/search[2]", Name: "näme\x00", N: 2, Time: time.Date(2026, 6, 1, 12, 0, 0, 123456000, time.UTC),
			Took: time.Second + 1, Attempts: 3, Meta: json.RawMessage(`{"class": "timeout"}`), Payload: []byte("\x00\xff"),
		},
		{},
		{N: math.MaxInt, Took: math.MaxInt64, Attempts: math.MaxInt, Time: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{N: math.MinInt, Took: math.MinInt64, Attempts: math.MinInt, Time: time.Date(-200, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Kind: "of another release", Payload: bytes.Repeat([]byte("large "), 20_000)},
	}
}

func numbered(first int64, events []journal.Event) []journal.Event {
	for i := range events {
		events[i].Seq = first + int64(i)
	}
	return events
}

func TestARowRoundTrips(t *testing.T) {
	for _, first := range []int64{1, 2, 1000, math.MaxInt64 - 10} {
		for _, events := range [][]journal.Event{batch(), batch()[:1], {}} {
			row := journal.EncodeRow("tides-42", first, events)
			got, err := journal.DecodeRow("tides-42", first, row)
			require.NoError(t, err)
			assert.Equal(t, numbered(first, events), got)
		}
	}
}

func TestARowKeepsTimesToTheMicrosecondInUTC(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 123456789, time.FixedZone("", 5400))
	got, err := journal.DecodeRow("r", 1, journal.EncodeRow("r", 1, []journal.Event{{Time: at}}))
	require.NoError(t, err)
	assert.Equal(t, time.Date(2026, 6, 1, 10, 30, 0, 123456000, time.UTC), got[0].Time)
}

func TestAnEmptyPayloadIsNone(t *testing.T) {
	events := []journal.Event{{Meta: json.RawMessage{}, Payload: []byte{}}}
	got, err := journal.DecodeRow("r", 1, journal.EncodeRow("r", 1, events))
	require.NoError(t, err)
	assert.Nil(t, got[0].Meta)
	assert.Nil(t, got[0].Payload)
}

func TestDecodedEventsDoNotKeepTheRow(t *testing.T) {
	events := numbered(1, batch())
	row := journal.EncodeRow("r", 1, events)
	got, err := journal.DecodeRow("r", 1, row)
	require.NoError(t, err)
	clear(row)
	assert.Equal(t, events, got)
	_ = append(got[0].Meta, "more"...)
	assert.Equal(t, events[0].Payload, got[0].Payload)
}

func TestARowIsWrittenTheSameWayEachTime(t *testing.T) {
	want := journal.EncodeRow("r", 1, batch())
	assert.Equal(t, want, journal.EncodeRow("r", 1, numbered(9, batch())), "Seq is not part of it")
	assert.NotEqual(t, want, journal.EncodeRow("r", 2, batch()))
	assert.NotEqual(t, want, journal.EncodeRow("R", 1, batch()))
}

// corrupt holds that a row is refused, and that the error names its place.
func corrupt(t *testing.T, run string, first int64, row []byte) {
	t.Helper()
	events, err := journal.DecodeRow(run, first, row)
	var fault *journal.CorruptError
	require.ErrorAs(t, err, &fault)
	require.ErrorIs(t, err, journal.ErrCorrupt)
	assert.Equal(t, run, fault.Run)
	assert.Equal(t, first, fault.Seq)
	assert.Error(t, fault.Err)
	assert.Nil(t, events)
}

func TestEveryChangedByteOfARowIsFound(t *testing.T) {
	row := journal.EncodeRow("r", 7, batch()[:4])
	for i := range row {
		for _, flip := range []byte{1, 0x80, 0xff, 0x55} {
			changed := bytes.Clone(row)
			changed[i] ^= flip
			corrupt(t, "r", 7, changed)
		}
	}
}

func TestACutOrLongerRowIsFound(t *testing.T) {
	row := journal.EncodeRow("r", 7, batch()[:4])
	for n := range row {
		corrupt(t, "r", 7, row[:n])
		corrupt(t, "r", 7, row[n+1:])
	}
	corrupt(t, "r", 7, append(bytes.Clone(row), 0))
	corrupt(t, "r", 7, append(bytes.Clone(row), row...))
}

func TestARowInTheWrongPlaceIsFound(t *testing.T) {
	row := journal.EncodeRow("r", 7, batch())
	for _, first := range []int64{-7, 0, 1, 6, 8, 7 << 8} {
		corrupt(t, "r", first, row)
	}
	for _, run := range []string{"", "R", "r ", "rr", "q"} {
		corrupt(t, run, 7, row)
	}
}

func TestACorruptRowOfALongIDHasAShortMessage(t *testing.T) {
	_, err := journal.DecodeRow(strings.Repeat("x\n", 10_000), 1, nil)
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 600)
	assert.NotContains(t, err.Error(), "\n")
}

// FuzzDecodeRow: no bytes make DecodeRow panic, and what it accepts can be written again.
func FuzzDecodeRow(f *testing.F) {
	f.Add("r", int64(1), journal.EncodeRow("r", 1, batch()[:4]))
	f.Add("r", int64(1), journal.EncodeRow("r", 1, nil))
	f.Add("", int64(-1), []byte{})
	f.Add("r", int64(1), []byte{1, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, run string, first int64, row []byte) {
		events, err := journal.DecodeRow(run, first, row)
		if err != nil {
			require.ErrorIs(t, err, journal.ErrCorrupt)
			return
		}
		again, err := journal.DecodeRow(run, first, journal.EncodeRow(run, first, events))
		require.NoError(t, err)
		require.Equal(t, events, again)
	})
}

// FuzzSealedRow goes behind the checksum, which nearly no random bytes would match.
func FuzzSealedRow(f *testing.F) {
	row := journal.EncodeRow("r", 1, batch()[:4])
	f.Add(row[:len(row)-4])
	f.Add([]byte{1})
	f.Add([]byte{2, 0})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x07})
	f.Add([]byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := journal.DecodeRow("r", 1, withChecksum(1, body))
		if err != nil {
			require.ErrorIs(t, err, journal.ErrCorrupt)
			return
		}
		again, err := journal.DecodeRow("r", 1, journal.EncodeRow("r", 1, events))
		require.NoError(t, err)
		require.Equal(t, events, again)
	})
}

// FuzzFlippedRow: a row of any events is read as it was written, and with any byte changed not at all.
func FuzzFlippedRow(f *testing.F) {
	f.Add("r", int64(1), "step:done", "3/a", "n", 1, int64(5), int64(6), 2, []byte(`{}`), []byte("payload"), uint(17), byte(1))
	f.Fuzz(func(t *testing.T, run string, first int64, kind, scope, name string, n int, micro, took int64, attempts int, meta, payload []byte, at uint, flip byte) {
		e := journal.Event{
			Seq: first, Kind: journal.Kind(kind), Scope: scope, Name: name, N: n, Time: time.UnixMicro(micro % (1 << 55)).UTC(),
			Took: time.Duration(took), Attempts: attempts, Meta: meta, Payload: payload,
		}
		row := journal.EncodeRow(run, first, []journal.Event{e})
		got, err := journal.DecodeRow(run, first, row)
		require.NoError(t, err)
		if len(meta) == 0 {
			e.Meta = nil
		}
		if len(payload) == 0 {
			e.Payload = nil
		}
		require.Equal(t, []journal.Event{e}, got)
		if flip != 0 {
			row[at%uint(len(row))] ^= flip
			corrupt(t, run, first, row)
		}
	})
}

// withChecksum is a row of the run "r" with a checksum that matches, whatever its content.
func withChecksum(first int64, body []byte) []byte {
	covered := append(binary.AppendVarint(nil, first), "r"...)
	covered = append(covered, body...)
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)))
}

func TestARowsFormIsWhatEarlierReleasesWrote(t *testing.T) {
	events := []journal.Event{{
		Kind: journal.StepDone, Scope: "a", Name: "b", N: 1, Time: time.UnixMicro(3), Took: 4, Attempts: 5, Meta: []byte("{}"), Payload: []byte("p"),
	}}
	body := "\x01" + "\x01" + "\x09step:done" + "\x01a" + "\x01b" + "\x02" + "\x06" + "\x08" + "\x0a" + "\x02{}" + "\x01p"
	assert.Equal(t, withChecksum(6, []byte(body)), journal.EncodeRow("r", 6, events))
}

func TestARowOfAnUnknownVersionSaysSo(t *testing.T) {
	row := withChecksum(1, []byte{2, 0})
	corrupt(t, "r", 1, row)
	_, err := journal.DecodeRow("r", 1, row)
	assert.ErrorContains(t, err, "version 2")
}

func TestASealedRowThatMakesNoSenseIsCorrupt(t *testing.T) {
	event := []byte("\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	_, err := journal.DecodeRow("r", 1, withChecksum(1, event))
	require.NoError(t, err)
	for name, body := range map[string][]byte{
		"no number of events":         {1},
		"more events than there are":  {1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"fewer events than there are": append(bytes.Clone(event), 0),
		"a part longer than the row":  {1, 1, 5, 'a'},
		"a length beyond all bounds":  {1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"a number that does not end":  {1, 1, 0, 0, 0, 0x80},
		"a number of too many bytes":  append([]byte{1, 1, 0, 0, 0}, bytes.Repeat([]byte{0x80}, 20)...),
		"billions of events":          {1, 0xff, 0xff, 0xff, 0xff, 0x07},
	} {
		t.Run(name, func(t *testing.T) { corrupt(t, "r", 1, withChecksum(1, body)) })
	}
}
