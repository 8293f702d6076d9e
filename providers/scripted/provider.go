package scripted

import (
	"context"
	"io"
	"iter"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/internal/wire"
	"github.com/pawl-go/pawl/task"
)

// Provider returns the script as a provider, without a network. Delays are timers, so it works under testing/synctest.
// The name stands in answers and errors.
func (s *Script) Provider(name string) providers.Provider {
	return providers.Conform(&direct{script: s, source: wire.Source{Provider: name}})
}

type direct struct {
	script *Script
	source wire.Source
}

func (d *direct) Name() string { return d.source.Provider }

func (d *direct) Chat(ctx context.Context, req providers.Request) (*providers.Response, error) {
	req.Stream, req.StreamOptions = false, nil // as openai sends it
	st, n, err := d.begin(ctx, &req)
	if err != nil {
		return nil, err
	}
	if st.status != 0 {
		return st.canned(d.Name()).Chat(quiet(ctx), req)
	}
	if err := st.speak(ctx); err != nil {
		return nil, err
	}
	if err := d.ending(ctx, st); err != nil {
		return nil, err
	}
	return &providers.Response{ChatCompletionResponse: st.response(req, n)}, nil
}

func (d *direct) Stream(ctx context.Context, req providers.Request) iter.Seq2[*providers.Delta, error] {
	return func(yield func(*providers.Delta, error) bool) {
		req := req
		req.Stream = true
		st, n, err := d.begin(ctx, &req)
		if err != nil {
			yield(nil, err)
			return
		}
		if st.status != 0 {
			st.canned(d.Name()).Stream(quiet(ctx), req)(yield)
			return
		}
		for chunk, err := range st.chunks(ctx, req, n) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&providers.Delta{ChatCompletionStreamResponse: chunk}, nil) {
				return
			}
		}
		if err := d.ending(ctx, st); err != nil {
			yield(nil, err)
		}
	}
}

// begin records the request and waits for the first byte.
func (d *direct) begin(ctx context.Context, req *providers.Request) (step, int, error) {
	copied, err := copyRequest(*req)
	if err != nil {
		return step{}, 0, &providers.CallError{
			Class: classifier.InvalidRequest, NotSent: true, Detail: wire.DetailMarshal, Err: err,
		}
	}
	*req = copied
	st, n := d.script.take(copied, task.Info(ctx).IdempotencyKey())
	st = st.resolve(copied)
	return st, n, wait(ctx, st.before)
}

// ending is the error with which an answer ends, or nil for a whole one.
func (d *direct) ending(ctx context.Context, st step) error {
	switch st.end {
	case endWhole:
		return nil
	case endStall:
		<-ctx.Done()
		return ctx.Err()
	case endError:
		return d.source.Embedded(st.header, []byte(st.body), wire.FindError([]byte(st.body)))
	default:
		return d.source.Broken(wire.DetailCut, io.ErrUnexpectedEOF)
	}
}
