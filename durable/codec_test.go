package durable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

// hostile is a codec that panics or fails from a certain call on.
type hostile struct {
	encodings, decodings   atomic.Int64
	encodeFrom, decodeFrom int64
	err                    error
}

func (h *hostile) Encode(p []byte) ([]byte, error) {
	if n := h.encodings.Add(1); h.encodeFrom > 0 && n >= h.encodeFrom {
		return h.fail()
	}
	return p, nil
}

func (h *hostile) Decode(p []byte) ([]byte, error) {
	if n := h.decodings.Add(1); h.decodeFrom > 0 && n >= h.decodeFrom {
		return h.fail()
	}
	return p, nil
}

func (h *hostile) fail() ([]byte, error) {
	if h.err != nil {
		return nil, h.err
	}
	panic("hostile codec")
}

// A codec that fails or panics fails the run, and does not take the process down.
func TestACodecThatFails(t *testing.T) {
	ended := errors.New("keys are gone")
	wf := durable.Workflow("w", func(ctx context.Context, in string) (string, error) {
		v, err := durable.Step(ctx, "s", func(context.Context) (string, error) { return in, nil })
		if err != nil {
			return "", err
		}
		if _, err := durable.Step(ctx, "f", func(context.Context) (string, error) { return "", errBoom }); err == nil {
			return "", errors.New("no failure")
		}
		sig, err := durable.WaitForSignal[string](ctx, "sig")
		if err != nil {
			return "", err
		}
		answer, err := durable.Interrupt[string](ctx, "?")
		return v + sig + answer, err
	})
	run := func(h *hostile) (*memory.Store, error) {
		store := memory.New()
		opt := durable.Using(durable.Settings{Codec: h})
		for range 3 {
			_, err := durable.Run(t.Context(), store, wf, "r", "in", opt)
			var suspended *durable.SuspendedError
			if !errors.As(err, &suspended) {
				return store, err
			}
			for _, w := range suspended.Waits {
				if w.Signal != "" {
					err = durable.Signal(t.Context(), store, "r", "sig", "sig", opt)
				} else {
					err = durable.Answer(t.Context(), store, "r", w.Question, "answer", opt)
				}
			}
			if err != nil {
				return store, err
			}
		}
		return store, errors.New("no end")
	}
	calm := &hostile{}
	_, err := run(calm)
	require.NoError(t, err)
	for _, fault := range []error{nil, ended} {
		for n := int64(1); n <= calm.encodings.Load(); n++ {
			_, err := run(&hostile{encodeFrom: n, err: fault})
			require.Error(t, err, "encoding %d", n)
			asError[*journal.CodecError](t, err)
		}
		for n := int64(1); n <= calm.decodings.Load(); n++ {
			_, err := run(&hostile{decodeFrom: n, err: fault})
			require.Error(t, err, "decoding %d", n)
		}
	}
	store, err := run(&hostile{encodeFrom: 2, err: ended})
	require.ErrorIs(t, err, ended)
	assert.Equal(t, journal.Failed, status(t, store, "r"))
	_, err = durable.Run(t.Context(), store, wf, "r", "in")
	asError[*durable.RunFailedError](t, err)
	assert.ErrorContains(t, err, "an error of type *github.com/pawl-go/pawl/journal.CodecError")
}
