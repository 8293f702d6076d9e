package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"
)

// A row is what a store keeps of the events that were written together: a version, the events, and a checksum that also
// covers which run and number they belong to, so that a row in the wrong place is found out as well.
const (
	rowVersion  = 1
	checksumLen = 4
)

// EncodeRow is for stores: it turns events that were written together, and are numbered from first, into a row.
func EncodeRow(run string, first int64, events []Event) []byte {
	size := 16 + checksumLen
	for i := range events {
		e := &events[i]
		size += len(e.Kind) + len(e.Scope) + len(e.Name) + len(e.Meta) + len(e.Payload) + 40
	}
	row := append(make([]byte, 0, size), rowVersion)
	row = binary.AppendUvarint(row, uint64(len(events)))
	for i := range events {
		e := &events[i]
		row = appendBytes(row, e.Kind)
		row = appendBytes(row, e.Scope)
		row = appendBytes(row, e.Name)
		row = binary.AppendVarint(row, int64(e.N))
		row = binary.AppendVarint(row, e.Time.UnixMicro())
		row = binary.AppendVarint(row, int64(e.Took))
		row = binary.AppendVarint(row, int64(e.Attempts))
		row = appendBytes(row, e.Meta)
		row = appendBytes(row, e.Payload)
	}
	return binary.LittleEndian.AppendUint32(row, checksum(run, first, row))
}

func appendBytes[T ~string | ~[]byte](row []byte, s T) []byte {
	return append(binary.AppendUvarint(row, uint64(len(s))), s...)
}

func checksum(run string, first int64, row []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	var head [binary.MaxVarintLen64]byte
	sum := crc32.Update(0, table, binary.AppendVarint(head[:0], first))
	sum = crc32.Update(sum, table, []byte(run))
	return crc32.Update(sum, table, row)
}

// DecodeRow is for stores: the events of a row whose first one is numbered first. It does not keep the row. Any change to a
// row is a *CorruptError.
func DecodeRow(run string, first int64, row []byte) ([]Event, error) {
	corrupt := func(err error) error { return &CorruptError{Run: run, Seq: first, Err: err} }
	if len(row) < 1+checksumLen {
		return nil, corrupt(fmt.Errorf("a row of %d bytes", len(row)))
	}
	body, sum := row[:len(row)-checksumLen], binary.LittleEndian.Uint32(row[len(row)-checksumLen:])
	if checksum(run, first, body) != sum {
		return nil, corrupt(errors.New("the checksum does not match"))
	}
	if body[0] != rowVersion {
		return nil, corrupt(fmt.Errorf("rows of version %d are not known to this release", body[0]))
	}
	r := rowReader{rest: body[1:]}
	n := r.length()
	events := make([]Event, 0, min(n, len(body)))
	for i := range n {
		if r.err != nil {
			break
		}
		events = append(events, Event{
			Seq: first + int64(i), Kind: Kind(r.text()), Scope: r.text(), Name: r.text(), N: int(r.number()),
			Time: time.UnixMicro(r.number()).UTC(), Took: time.Duration(r.number()), Attempts: int(r.number()),
			Meta: r.bytes(), Payload: r.bytes(),
		})
	}
	if r.err == nil && len(r.rest) > 0 {
		r.err = errors.New("bytes are left over")
	}
	if r.err != nil {
		return nil, corrupt(r.err)
	}
	return events, nil
}

// rowReader reads a row's parts; after a fault it gives zeros.
type rowReader struct {
	rest []byte
	err  error
}

func (r *rowReader) fail() {
	r.rest, r.err = nil, errors.New("the row ends too early")
}

func (r *rowReader) length() int {
	n, used := binary.Uvarint(r.rest)
	if used <= 0 || n > math.MaxInt32 {
		r.fail()
		return 0
	}
	r.rest = r.rest[used:]
	return int(n)
}

func (r *rowReader) number() int64 {
	n, used := binary.Varint(r.rest)
	if used <= 0 {
		r.fail()
		return 0
	}
	r.rest = r.rest[used:]
	return n
}

func (r *rowReader) part() []byte {
	n := r.length()
	if n > len(r.rest) {
		r.fail()
		return nil
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *rowReader) text() string { return string(r.part()) }

func (r *rowReader) bytes() []byte {
	if p := r.part(); len(p) > 0 {
		return append([]byte(nil), p...)
	}
	return nil
}
