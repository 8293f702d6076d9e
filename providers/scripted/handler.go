package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/providers"
)

// Handler returns the script as an OpenAI-compatible endpoint: POST /chat/completions, under any prefix (/v1). It works
// with httptest.NewServer and with any other server.
func (s *Script) Handler() http.Handler { return http.HandlerFunc(s.serve) }

func (s *Script) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		send(w, failure(http.StatusNotFound, "invalid_request_error", "unknown_url", "only POST /chat/completions is served").step)
		return
	}
	var req providers.Request
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &req)
	}
	if err != nil {
		send(w, failure(http.StatusBadRequest, "invalid_request_error", "unreadable_request", "the body is not a chat request").step)
		return
	}
	st, n := s.take(req, r.Header.Get("Idempotency-Key"))
	st = st.resolve(req)
	if wait(r.Context(), st.before) != nil {
		return
	}
	switch {
	case st.status != 0:
		send(w, st)
	case req.Stream:
		st.stream(r.Context(), w, req, n)
	default:
		st.plain(r.Context(), w, req, n)
	}
}

// send writes a response that is no answer.
func send(w http.ResponseWriter, st step) {
	maps.Copy(w.Header(), st.header)
	w.WriteHeader(st.status)
	io.WriteString(w, st.body) //nolint:errcheck // the caller is gone
}

// plain writes an answer at once. One that does not end whole promises more bytes than it sends.
func (s step) plain(ctx context.Context, w http.ResponseWriter, req providers.Request, n int) {
	if s.speak(ctx) != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if s.end == endError {
		io.WriteString(w, s.body) //nolint:errcheck // the caller is gone
		return
	}
	raw, err := json.Marshal(s.response(req, n))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	if s.end != endWhole {
		raw = raw[:len(raw)/2]
	}
	w.Write(raw)
	flush(w)
	s.finishConnection(ctx)
}

// stream writes an answer as server-sent events.
func (s step) stream(ctx context.Context, w http.ResponseWriter, req providers.Request, n int) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush(w)
	for chunk, err := range s.chunks(ctx, req, n) {
		if err != nil {
			return
		}
		if chunk.Usage != nil && (req.StreamOptions == nil || !req.StreamOptions.IncludeUsage) {
			if chunk.Usage = nil; len(chunk.PromptFilterResults) == 0 {
				continue // the last chunk exists for the usage only
			}
		}
		raw, err := json.Marshal(chunk)
		if err != nil {
			return
		}
		fmt.Fprintf(w, "data: %s\n\n", raw)
		flush(w)
	}
	switch s.end {
	case endWhole:
		io.WriteString(w, "data: [DONE]\n\n") //nolint:errcheck // the caller is gone
	case endError:
		fmt.Fprintf(w, "data: %s\n\n", s.body)
	}
	flush(w)
	s.finishConnection(ctx)
}

// finishConnection does to the connection what the script says.
func (s step) finishConnection(ctx context.Context) {
	switch s.end {
	case endStall:
		<-ctx.Done()
	case endReset:
		panic(http.ErrAbortHandler) // how net/http is told to break the connection
	}
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
