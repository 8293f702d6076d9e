package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// DefaultPayloadLimit is the largest payload, in bytes of JSON, that is journaled unless a run's configuration says
// otherwise.
const DefaultPayloadLimit = 16 << 20

// Codec changes payloads on their way into a store and back: it compresses or encrypts them. It must be safe for
// concurrent use, must not keep or change what it is given, and Decode(Encode(x)) must be x. What it returns is not
// changed either.
type Codec interface {
	// Encode returns what is stored for a payload, which is JSON or what an outer codec made of it.
	Encode(payload []byte) ([]byte, error)
	// Decode returns the payload of what is stored.
	Decode(stored []byte) ([]byte, error)
}

// What the errors of this package's codecs match, with errors.Is.
var (
	// ErrPayload says that what is stored is not what the codec has written: it is damaged, or another codec wrote it.
	ErrPayload = errors.New("stored payload is damaged, or was written by another codec")

	errNotPlain = fmt.Errorf("%w: it is no JSON, and no codec is set: set the one that wrote it", ErrPayload)
	// ErrUnknownKey says that what is stored was encrypted with a key that the codec has not been given.
	ErrUnknownKey = errors.New("key unknown")
)

// CodecError says that a codec has failed.
type CodecError struct {
	// Codec names the codec's type, and Op is "encode" or "decode".
	Codec, Op string
	// Err is what the codec returned, or a *PanicError.
	Err error
}

// Error names the codec, what it was asked to do, and why it failed.
func (e *CodecError) Error() string {
	return fmt.Sprintf("pawl: codec %s cannot %s a payload: %v", e.Codec, e.Op, e.Err)
}

// Unwrap returns what the codec returned, or the panic.
func (e *CodecError) Unwrap() error { return e.Err }

// Encode calls c's Encode; a nil codec leaves the payload as it is. An error is a *CodecError, also if c has panicked.
func Encode(c Codec, payload []byte) ([]byte, error) {
	if c == nil {
		return payload, nil
	}
	return callCodec(c, "encode", c.Encode, payload)
}

// Decode calls c's Decode; a nil codec leaves what is stored as it is. An error is a *CodecError, also if c has panicked.
func Decode(c Codec, stored []byte) ([]byte, error) {
	if c == nil {
		return stored, nil
	}
	return callCodec(c, "decode", c.Decode, stored)
}

// DecodeJSON is Decode for a payload that was JSON. Without a codec, what cannot be JSON is an error that matches ErrPayload:
// there was a codec when it was written.
func DecodeJSON(c Codec, stored []byte) ([]byte, error) {
	if c == nil && len(stored) > 0 && !bytes.ContainsAny(stored[:1], "{[\"-0123456789tfn") {
		return nil, errNotPlain
	}
	return Decode(c, stored)
}

func callCodec(c Codec, op string, method func([]byte) ([]byte, error), in []byte) ([]byte, error) {
	out, err := guardedCodec(method, in)
	if err != nil {
		return nil, &CodecError{Codec: fmt.Sprintf("%T", c), Op: op, Err: err}
	}
	return out, nil
}

func guardedCodec(method func([]byte) ([]byte, error), in []byte) (out []byte, err error) {
	defer recovered("codec", &err)
	return method(in)
}

// Plain returns the codec that stores payloads as they are.
func Plain() Codec { return plain{} }

type plain struct{}

func (plain) Encode(payload []byte) ([]byte, error) { return payload, nil }
func (plain) Decode(stored []byte) ([]byte, error)  { return stored, nil }

// Codecs returns the codec that encodes with each of cs in turn and decodes in the other order, so compression comes before
// encryption: Codecs(Deflate(), sealed). Nil ones are skipped.
func Codecs(cs ...Codec) Codec {
	return chained(slices.DeleteFunc(slices.Clone(cs), func(c Codec) bool { return c == nil }))
}

type chained []Codec

func (cs chained) Encode(payload []byte) (out []byte, err error) {
	out = payload
	for _, c := range cs {
		if out, err = Encode(c, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (cs chained) Decode(stored []byte) (out []byte, err error) {
	out = stored
	for _, c := range slices.Backward(cs) {
		if out, err = Decode(c, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// PayloadTooLargeError says that a payload is above the limit.
type PayloadTooLargeError struct {
	// What names the payload: "Result", "the update of node \"draft\"".
	What string
	// Size is its size in bytes of JSON, and Limit what is allowed.
	Size, Limit int
}

// Error names the payload, its size, the limit, and what to do.
func (e *PayloadTooLargeError) Error() string {
	return fmt.Sprintf("pawl: %s takes %d bytes of JSON and the limit is %d: keep large things elsewhere and journal a reference, "+
		"or raise the payload limit", e.What, e.Size, e.Limit)
}

// Unretryable is true: the same code would return the same again.
func (e *PayloadTooLargeError) Unretryable() bool { return true }

// CheckPayload returns a *PayloadTooLargeError if a payload is above limit bytes; 0 is DefaultPayloadLimit, and a negative
// limit allows all.
func CheckPayload(what string, payload []byte, limit int) error {
	if limit == 0 {
		limit = DefaultPayloadLimit
	}
	if limit > 0 && len(payload) > limit {
		return &PayloadTooLargeError{What: what, Size: len(payload), Limit: limit}
	}
	return nil
}
