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
	for range max(0, len(st.tokens)-1) {
		if err := wait(ctx, st.every); err != nil {
			return nil, err
		}
	}
	switch st.end {
	case endWhole:
		return &providers.Response{ChatCompletionResponse: st.response(req, n)}, nil
	case endStall:
		<-ctx.Done()
		return nil, ctx.Err()
	case endError:
		return nil, d.source.Embedded(st.header, []byte(st.body), wire.FindError([]byte(st.body)))
	default:
		return nil, d.source.Broken(wire.DetailCut, io.ErrUnexpectedEOF)
	}
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
		first := true
		for chunk := range st.deltas(req, n) {
			if !first {
				if err := wait(ctx, st.every); err != nil {
					yield(nil, err)
					return
				}
			}
			first = false
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

// ending is the error with which a stream ends, or nil for a whole one.
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
