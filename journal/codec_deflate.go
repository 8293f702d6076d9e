package journal

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

// The first byte of what Deflate stores.
const (
	deflateStored  = 0x00 // the payload as it is
	deflatePacked  = 0x01 // its length, the checksum and the compressed payload
	deflateFrom    = 256  // shorter payloads are not compressed
	deflateMaximum = 1 << 30
)

// Deflate returns a codec that compresses payloads (RFC 1951). Those under 256 bytes, and those that do not get shorter, are
// stored as they are behind one byte. What does not decompress to the very payload is ErrPayload. A payload is at most 1
// GiB; memory is taken as the data proves to be there, so that a small forged record cannot ask for all of it.
func Deflate() Codec { return &deflate{} }

type deflate struct{ writers sync.Pool }

func (d *deflate) Encode(payload []byte) ([]byte, error) {
	if len(payload) > deflateMaximum {
		return nil, fmt.Errorf("a payload of %d bytes is above the codec's limit of %d", len(payload), deflateMaximum)
	}
	if len(payload) >= deflateFrom {
		if packed := d.pack(payload); len(packed) < len(payload) {
			return packed, nil
		}
	}
	return append([]byte{deflateStored}, payload...), nil
}

func (d *deflate) pack(payload []byte) []byte {
	out := bytes.NewBuffer(make([]byte, 0, len(payload)/2+16))
	head := binary.AppendUvarint([]byte{deflatePacked}, uint64(len(payload)))
	out.Write(binary.LittleEndian.AppendUint32(head, payloadChecksum(payload)))
	w, pooled := d.writers.Get().(*flate.Writer)
	if pooled {
		w.Reset(out)
	} else {
		w, _ = flate.NewWriter(out, flate.DefaultCompression) // only an unknown level is an error
	}
	_, err := w.Write(payload)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return payload // a buffer does not fail
	}
	d.writers.Put(w)
	return out.Bytes()
}

func (d *deflate) Decode(stored []byte) ([]byte, error) {
	if len(stored) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrPayload)
	}
	switch rest := stored[1:]; stored[0] {
	case deflateStored:
		return bytes.Clone(rest), nil
	case deflatePacked:
		return unpack(rest)
	}
	return nil, fmt.Errorf("%w: it begins with byte 0x%02x", ErrPayload, stored[0])
}

func unpack(packed []byte) ([]byte, error) {
	size, n := binary.Uvarint(packed)
	if n <= 0 || size > deflateMaximum || len(packed) < n+4 {
		return nil, fmt.Errorf("%w: its length is not readable", ErrPayload)
	}
	sum, body := binary.LittleEndian.Uint32(packed[n:]), packed[n+4:]
	r := flate.NewReader(bytes.NewReader(body))
	var out bytes.Buffer
	out.Grow(int(min(size, uint64(len(body))*8)))
	// One byte more shows that there is more than was said.
	if _, err := io.Copy(&out, io.LimitReader(r, int64(size)+1)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	if out.Len() != int(size) {
		return nil, fmt.Errorf("%w: it should have %d bytes", ErrPayload, size)
	}
	if payloadChecksum(out.Bytes()) != sum {
		return nil, fmt.Errorf("%w: the checksum does not match", ErrPayload)
	}
	return out.Bytes(), nil
}

func payloadChecksum(payload []byte) uint32 {
	return crc32.Checksum(payload, crc32.MakeTable(crc32.Castagnoli))
}
