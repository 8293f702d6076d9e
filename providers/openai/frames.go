package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers/internal/wire"
)

// drainTime is how long Close waits for the end of a body whose stream is done. Only a connection whose body was read to
// its end is used again.
const drainTime = 50 * time.Millisecond

// eagerFields bounds how often the data of one frame is looked at before its end. Looking costs the length of the data.
const eagerFields = 64

const detailFrame = "a frame of the stream cannot be read"

// errTooLong ends a stream that has given more than may be read.
var errTooLong = errors.New("longer than MaxResponseBytes")

// frames reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) as servers really send
// them, and gives go-openai one "data:" line for each chunk of an answer. Comments, other fields and foreign events are
// dropped. An error frame ends it with a *providers.CallError; the end of the body with io.EOF, whether it was whole or
// not: see done.
type frames struct {
	source wire.Source
	header http.Header
	body   io.Closer
	in     *bufio.Reader
	left   int64 // how many bytes may still be read
	limit  int64

	out     bytes.Buffer // what Read has still to give
	event   string       // the event field of the frame being read
	data    []byte       // the data fields of the frame being read
	fields  int          // how many there were
	started bool         // a field or comment was seen
	done    bool         // [DONE] was seen, or the body was one whole JSON document
	failed  bool         // an error object was seen
	err     error        // how it ended
}

func newFrames(resp *http.Response, source wire.Source, limit int64) *frames {
	return &frames{source: source, header: resp.Header, body: resp.Body, in: bufio.NewReader(resp.Body), left: limit, limit: limit}
}

// Read gives the next bytes of the cleaned stream.
func (f *frames) Read(p []byte) (int, error) {
	for f.out.Len() == 0 {
		if f.err != nil {
			return 0, f.err
		}
		f.err = f.next()
	}
	return f.out.Read(p)
}

// Close closes the body, after a short look for its end if the stream is done.
func (f *frames) Close() error {
	if f.done && errors.Is(f.err, io.EOF) {
		t := time.AfterFunc(drainTime, func() { f.body.Close() }) //nolint:errcheck // see below
		defer t.Stop()
		io.CopyN(io.Discard, f.in, errorLimit) //nolint:errcheck // a connection that does not end is closed
	}
	return f.body.Close()
}

// next reads one line, and returns how the stream ends if it does.
func (f *frames) next() error {
	line, err := f.line()
	switch {
	case errors.Is(err, errTooLong):
		return tooLong(f.source, f.limit)
	case err != nil && !errors.Is(err, io.EOF):
		return transportError(f.source, err)
	}
	if err == nil || len(line) > 0 {
		for part := range bytes.SplitSeq(line, []byte{'\r'}) { // a lone CR ends a line too
			if e := f.take(part); e != nil {
				return e
			}
		}
	}
	if err != nil {
		return f.end()
	}
	return nil
}

// line reads up to a line feed, which it drops with a carriage return before it.
func (f *frames) line() ([]byte, error) {
	var line []byte
	for {
		part, err := f.in.ReadSlice('\n')
		if f.left -= int64(len(part)); f.left < 0 {
			return nil, errTooLong
		}
		if err == nil && line == nil {
			return chomp(part), nil
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return chomp(line), err
		}
	}
}

func chomp(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}

// take handles one line.
func (f *frames) take(line []byte) error {
	if !f.started {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		f.started = true
		return f.addData(value)
	case "event":
		f.started, f.event = true, string(value)
	case "": // a blank line ends a frame; a colon starts a comment
		if len(line) == 0 {
			return f.dispatch()
		}
		f.started = true
	default:
		return f.foreign(line)
	}
	return nil
}

// addData takes a data field. A frame may have several, yet some servers leave out the blank lines between frames: data
// that is a whole JSON text counts as a frame at once.
func (f *frames) addData(value []byte) error {
	if len(f.data) > 0 {
		f.data = append(f.data, '\n')
	}
	f.data = append(f.data, value...)
	if string(bytes.TrimSpace(f.data)) == "[DONE]" {
		f.out.WriteString("data: [DONE]\n")
		f.done = true
		return io.EOF
	}
	f.fields++
	if f.fields <= eagerFields && json.Valid(f.data) {
		return f.dispatch()
	}
	return nil
}

// foreign handles a line that is no field of the format. In the place of a stream it may start a JSON document or a page;
// within a stream, a JSON text counts as data that lost its prefix. All else is ignored, as the format asks.
func (f *frames) foreign(line []byte) error {
	text := bytes.TrimSpace(line)
	if len(text) == 0 || !strings.ContainsRune("{[<", rune(text[0])) {
		return nil
	}
	if f.started {
		if json.Valid(text) {
			return f.addData(text)
		}
		return nil
	}
	return f.document(text)
}

// dispatch handles a frame whose data is complete.
func (f *frames) dispatch() error {
	data, event := bytes.TrimSpace(f.data), f.event
	f.data, f.event, f.fields = f.data[:0], "", 0
	if len(data) == 0 {
		return nil
	}
	obj := wire.FindError(data)
	if obj == nil && event == "error" {
		obj = wire.ParseError(data)
	}
	switch {
	case obj != nil:
		f.failed = true
		return f.source.Embedded(f.header, data, obj)
	case data[0] != '{':
		return nil // a keep-alive: ping, null
	case !json.Valid(data):
		return f.source.Broken(detailFrame, nil)
	case !bytes.Contains(data, []byte(`"choices"`)) && !bytes.Contains(data, []byte(`"usage"`)):
		return nil // another event: {"type":"ping"}
	}
	return f.emit(data)
}

// emit gives go-openai a chunk, on one line. An error member, which is empty here, is left out: as the first one go-openai
// takes it for an error.
func (f *frames) emit(chunk []byte) error {
	var members map[string]json.RawMessage
	var err error
	if bytes.Contains(chunk, []byte(`"error"`)) {
		if err = json.Unmarshal(chunk, &members); err == nil {
			delete(members, "error")
			chunk, err = json.Marshal(members)
		}
	}
	f.out.WriteString("data: ")
	if err == nil && bytes.IndexByte(chunk, '\n') >= 0 {
		err = json.Compact(&f.out, chunk)
	} else {
		f.out.Write(chunk)
	}
	f.out.WriteByte('\n')
	if err != nil {
		return f.source.Broken(detailFrame, err)
	}
	return nil
}

// end handles the end of the body: data without a blank line behind it was cut.
func (f *frames) end() error {
	if f.event == "error" && len(f.data) > 0 {
		return f.dispatch()
	}
	return io.EOF
}
