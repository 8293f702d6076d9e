package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Capture says what of a run's values may be shown in events, logs and pages. What is journaled does not depend on it.
type Capture string

// The levels. Classes, codes and user codes are shown at each of them.
const (
	CaptureFull   Capture = "full"   // everything; the zero value means it too
	CaptureShapes Capture = "shapes" // types and sizes, no values
)

// CaptureError says that a capture level is none.
type CaptureError struct{ Capture Capture }

// Error names the level and those that exist.
func (e *CaptureError) Error() string {
	return fmt.Sprintf("pawl: capture %q is no level: use %q or %q", string(e.Capture), CaptureFull, CaptureShapes)
}

// Validate returns a *CaptureError for anything but the levels and the zero value.
func (c Capture) Validate() error {
	switch c {
	case "", CaptureFull, CaptureShapes:
		return nil
	}
	return &CaptureError{Capture: c}
}

// Full reports whether values may be shown. An unknown level shows none.
func (c Capture) Full() bool { return c == "" || c == CaptureFull }

// JSON returns a payload as it may be shown: as it is, or its shape as a JSON string.
func (c Capture) JSON(payload []byte) json.RawMessage {
	if c.Full() {
		return payload
	}
	text, err := json.Marshal(ShapeOfJSON(payload))
	if err != nil { // a string always fits
		return nil
	}
	return text
}

// Text returns a text as it may be shown: as it is, or its length.
func (c Capture) Text(s string) string {
	if c.Full() {
		return s
	}
	return textShape(s)
}

// Error returns a record as it may be shown. Of CaptureShapes it has the types, classes, codes and statuses.
func (c Capture) Error(r *ErrorRecord) *ErrorRecord {
	if r == nil || c.Full() {
		return r
	}
	shape := &ErrorRecord{
		Type: r.Type, Text: textShape(r.text()), Nil: r.Nil, ErrorFacts: r.ErrorFacts, HTTPStatus: r.HTTPStatus,
		Timeout: r.Timeout, Temporary: r.Temporary, RetryHint: r.RetryHint, RetryRefused: r.RetryRefused,
		Unretryable: r.Unretryable, Is: r.Is, Same: r.Same, Asked: r.Asked, Many: r.Many,
	}
	for _, cause := range r.Causes {
		if cause != nil {
			shape.Causes = append(shape.Causes, c.Error(cause))
		}
	}
	return shape
}

// ShapeOf describes a value by types and sizes, with Go's names of fields and without any value of it:
// "{Topic: string(12), Notes: [3]string}". A nil value is "null".
func ShapeOf(v any) string {
	w := shapeWriter{left: maxShape}
	w.goValue(v)
	return w.out.String()
}

// ShapeOfJSON describes JSON by types and sizes, without any value of it: `{topic: string(12), notes: [3]string}`. The names
// of objects' members are shown if they look like names of fields, and else counted, since a map's keys are values.
func ShapeOfJSON(payload []byte) string {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	w := shapeWriter{left: maxShape}
	if err := w.jsonValue(dec); err != nil {
		return fmt.Sprintf("no JSON (%d bytes)", len(payload))
	}
	return w.out.String()
}

func textShape(s string) string { return fmt.Sprintf("string(%d)", len(s)) }

// shapeWriter writes a shape of bounded length.
type shapeWriter struct {
	out  strings.Builder
	left int // values that may still be described
}

// maxShape is how many values a shape describes.
const maxShape = 200
