package openai

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/internal/wire"
	"github.com/stretchr/testify/require"
)

func read(body io.Reader) (string, *frames, error) {
	f := newFrames(&http.Response{Header: http.Header{}, Body: io.NopCloser(body)}, wire.Source{Provider: "p"}, 1<<20)
	out, err := io.ReadAll(f)
	return string(out), f, err
}

func TestFramesComeTheSameInWhateverPortionsTheyArrive(t *testing.T) {
	body := ": hi\r\n\r\nevent: x\r\ndata: {\"choices\":[1]}\r\n\r\ndata: {\ndata: \"choices\":[2]}\n\ndata: [DONE]\n\n"
	want, _, err := read(strings.NewReader(body))
	require.NoError(t, err)
	require.Equal(t, "data: {\"choices\":[1]}\ndata: {\"choices\":[2]}\ndata: [DONE]\n", want)
	for name, r := range map[string]io.Reader{
		"bytes": iotest.OneByteReader(strings.NewReader(body)), "halves": iotest.HalfReader(strings.NewReader(body)),
		"data with the error": iotest.DataErrReader(strings.NewReader(body)),
	} {
		t.Run(name, func(t *testing.T) {
			got, f, err := read(r)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.True(t, f.done)
		})
	}
}

func TestFramesOfABrokenConnection(t *testing.T) {
	reset := errors.New("connection reset by peer: " + "the prompt")
	for name, start := range map[string]string{"a stream": "data: {\"choices\":[]}\n\n", "a document": `{"choices":`} {
		t.Run(name, func(t *testing.T) {
			_, f, err := read(io.MultiReader(strings.NewReader(start), iotest.ErrReader(reset)))
			var e *providers.CallError
			require.ErrorAs(t, err, &e)
			require.Equal(t, classifier.ProviderError, e.Class)
			require.NotContains(t, e.Error(), "the prompt")
			require.False(t, f.done)
			require.NoError(t, f.Close())
			_, again := f.Read(make([]byte, 1))
			require.Equal(t, err, again, "the first error stays")
		})
	}
}

// FuzzFrames: whatever a server sends, what go-openai gets is lines of data, and it ends.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{
		"data: {\"choices\":[]}\n\ndata: [DONE]\n\n", ": c\n\nevent: error\ndata: x\n\n", "{\"error\":{}}", "<html>",
		"data: {\r\ndata: }\r\r",
		"\xef\xbb\xbfdata:{\"error\":null,\"choices\":[]}", "data: {\"error\":\ndata: {\"code\":502}}\n\n", "[1]", "event: error\ndata: {",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		out, _, err := read(bytes.NewReader(body))
		var e *providers.CallError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("an error of no kind: %v", err)
		}
		for _, line := range strings.SplitAfter(out, "\n") {
			if line != "" && !(strings.HasPrefix(line, "data: ") && strings.HasSuffix(line, "\n")) {
				t.Fatalf("no line of data: %q", line)
			}
		}
		slow, _, _ := read(iotest.OneByteReader(bytes.NewReader(body)))
		if slow != out {
			t.Fatalf("portions matter: %q and %q", out, slow)
		}
	})
}
