package superstep_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/superstep"
)

// scored is a state and an update that need not be JSON.
type scored struct {
	Scores []float64
	Any    any
	Sum    float64 `merge:"sum"`
}

// scoring compiles a graph whose node "a", which retries and has a Catch handler, returns u.
func scoring(tb testing.TB, c *meter, u scored) *graph.Graph[scored, scored] {
	tb.Helper()
	b := graph.New("scoring", graph.Fields[scored, scored]())
	first := b.Node("first", func(context.Context, scored) (scored, error) { c.hit("first"); return scored{}, nil })
	a := b.Node("a", func(context.Context, scored) (scored, error) { c.hit("a"); return u, nil }, graph.Retry(stubborn(3)))
	b.Catch(a, func(context.Context, scored, error) (scored, error) { c.hit("handler"); return scored{}, nil })
	b.Start(first)
	b.Edge(first, a)
	g, err := b.Compile()
	require.NoError(tb, err)
	return g
}

// notSerializable checks that run "r" has ended for good because of a value that JSON cannot hold.
func notSerializable(tb testing.TB, store journal.Store, err error, path, typ string) {
	tb.Helper()
	failed := asError[*durable.RunFailedError](tb, err)
	require.Equal(tb, durable.CodeNotSerializable, failed.Code)
	bad := asError[*journal.NotSerializableError](tb, err)
	require.Equal(tb, path, bad.Path)
	require.Equal(tb, typ, bad.Type)
	require.Contains(tb, err.Error(), path)
	require.Equal(tb, journal.RunError, lastOf(tb, store, "r").Kind)
	m, merr := durable.FailureOf(lastOf(tb, store, "r"))
	require.NoError(tb, merr)
	require.Equal(tb, durable.CodeNotSerializable, m.Code)
}

func TestJournal_AnUpdateThatJSONCannotHoldEndsTheRunWithoutRetryOrCatch(t *testing.T) {
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	for name, row := range map[string]struct {
		u         scored
		path, typ string
	}{
		"NaN":     {scored{Scores: []float64{0, 1, 2, math.NaN()}}, "Update.Scores[3]", "float64"},
		"Inf":     {scored{Sum: math.Inf(1)}, "Update.Sum", "float64"},
		"channel": {scored{Any: make(chan int)}, "Update.Any", "chan int"},
		"func":    {scored{Any: map[string]any{"f": func() {}}}, `Update.Any["f"]`, "func()"},
		"cycle":   {scored{Any: cyclic}, `Update.Any["self"]`, "map[string]interface {}"},
	} {
		t.Run(name, func(t *testing.T) {
			c, store := newMeter(), newStore()
			g := scoring(t, c, row.u)
			o := play(t.Context(), t, g, stored(store), scored{}, in("r"))
			notSerializable(t, store, o.err, row.path, row.typ)
			require.Equal(t, map[string]int{"first": 1, "a": 1}, c.all())
			_, err := runner(t, g, stored(store)).Resume(t.Context(), "r")
			notSerializable(t, store, err, row.path, row.typ)
			require.Equal(t, 1, c.all()["a"])
			node := asError[*superstep.NodeError](t, err)
			require.Equal(t, "a", node.Node)
		})
	}
}

func TestJournal_AStateThatJSONCannotHold(t *testing.T) {
	t.Run("the input", func(t *testing.T) {
		store := newStore()
		_, err := runner(t, scoring(t, newMeter(), scored{}), stored(store)).Run(t.Context(), scored{Any: make(chan int)}, in("r"))
		require.Equal(t, "State.Any", asError[*journal.NotSerializableError](t, err).Path)
		_, err = store.Load(t.Context(), "r")
		require.ErrorIs(t, err, journal.ErrNotFound, "there is no such run")
	})
	t.Run("the result", func(t *testing.T) {
		store := newStore()
		res, err := runner(t, scoring(t, newMeter(), scored{Sum: math.MaxFloat64}), stored(store)).
			Run(t.Context(), scored{Sum: math.MaxFloat64}, in("r"))
		notSerializable(t, store, err, "State.Sum", "float64")
		require.Equal(t, 2, res.SuperSteps)
	})
}

// What has finished is recorded although the barrier that it belongs to cannot be.
func TestJournal_AnItemThatJSONCannotHold(t *testing.T) {
	c, store := newMeter(), newStore()
	var healed atomic.Bool
	b := graph.New("items", graph.Fields[st, up]())
	a := b.Node("a", counted(c, "a", say("a")))
	side := b.Node("side", counted(c, "side", say("side")))
	leaf := graph.Task(b, "leaf", func(_ context.Context, _ st, v float64) (up, error) { return up{N: int(v)}, nil })
	b.Start(a, side)
	b.Route(a, func(st) graph.Next {
		if healed.Load() {
			return leaf.Each([]float64{1, 2})
		}
		return leaf.Each([]float64{1, math.NaN()})
	}, leaf)
	g, err := b.Compile()
	require.NoError(t, err)
	_, err = runner(t, g, stored(store)).Run(t.Context(), st{}, in("r"))
	notSerializable(t, store, err, "leaf[1]", "float64")
	healed.Store(true)
	res, err := runner(t, g, stored(store)).Retry(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, 3, res.State.N)
	require.Equal(t, map[string]int{"a": 1, "side": 1}, c.all(), "neither runs again")
}

func TestJournal_AStepThatJSONCannotHoldEndsTheRunWhateverTheNodeMakesOfIt(t *testing.T) {
	for name, result := range map[string]any{"NaN": math.NaN(), "too large": strings.Repeat("x", 2000)} {
		t.Run(name, func(t *testing.T) {
			c, store := newMeter(), newStore()
			g := build(t, func(b *bld) {
				a := b.Node("a", func(ctx context.Context, _ st) (up, error) {
					c.hit("a")
					_, _ = durable.Step(ctx, "s", func(context.Context) (any, error) { return result, nil })
					return up{Log: []string{"swallowed"}}, nil
				}, graph.Retry(stubborn(3)))
				b.Catch(a, func(context.Context, st, error) (up, error) { c.hit("handler"); return up{}, nil })
				b.Start(a)
			})
			cfg := stored(store)
			cfg.PayloadLimit = 1000
			_, err := runner(t, g, cfg).Run(t.Context(), st{}, in("r"))
			require.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
			require.Equal(t, map[string]int{"a": 1}, c.all())
		})
	}
}

func TestJournal_PayloadsAreLimited(t *testing.T) {
	large := strings.Repeat("x", 600)
	cfg := func(store journal.Store) superstep.Config { return superstep.Config{Store: store, PayloadLimit: 1000} }
	t.Run("an update", func(t *testing.T) {
		c, store := newMeter(), newStore()
		g := scoring(t, c, scored{Any: large + large})
		_, err := runner(t, g, cfg(store)).Run(t.Context(), scored{}, in("r"))
		require.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
		tooLarge := asError[*journal.PayloadTooLargeError](t, err)
		require.Equal(t, 1000, tooLarge.Limit)
		require.Greater(t, tooLarge.Size, 1200)
		require.Equal(t, map[string]int{"first": 1, "a": 1}, c.all())
		require.Contains(t, err.Error(), "limit is 1000")
	})
	t.Run("the input", func(t *testing.T) {
		store := newStore()
		_, err := runner(t, scoring(t, newMeter(), scored{}), cfg(store)).Run(t.Context(), scored{Any: large + large}, in("r"))
		require.ErrorAs(t, err, new(*journal.PayloadTooLargeError))
		_, err = store.Load(t.Context(), "r")
		require.ErrorIs(t, err, journal.ErrNotFound)
	})
	t.Run("the result", func(t *testing.T) {
		store := newStore()
		g := inLine(t, say(large), say(large))
		_, err := runner(t, g, cfg(store)).Run(t.Context(), st{}, in("r"))
		require.Equal(t, durable.CodeNotSerializable, asError[*durable.RunFailedError](t, err).Code)
	})
	t.Run("what is at the limit passes", func(t *testing.T) {
		res, err := runner(t, inLine(t, say(large)), cfg(newStore())).Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		require.Equal(t, []string{large}, res.State.Log)
	})
}

func TestJournal_PayloadsPassThroughTheCodec(t *testing.T) {
	sealed, err := journal.AESGCM(journal.Key{ID: "k1", Secret: []byte("0123456789abcdef")})
	require.NoError(t, err)
	for name, codec := range map[string]journal.Codec{
		"deflate": journal.Deflate(), "AES-GCM": sealed, "both": journal.Codecs(journal.Deflate(), sealed),
	} {
		t.Run(name, func(t *testing.T) {
			store, secret := newStore(), "top secret"
			g := inLine(t,
				func(ctx context.Context, s st) (up, error) {
					v, err := durable.Step(ctx, "s", func(context.Context) (string, error) { return secret + " step", nil })
					return up{Log: []string{v, s.V}}, err
				},
				asks(secret+" question"), failsOnce(say("end")))
			cfg := stored(store)
			cfg.Codec = codec
			_, err := runner(t, g, cfg).Run(t.Context(), st{V: secret}, in("r"))
			q := questionsOf(t, err)
			require.NoError(t, runner(t, g, cfg).Answer(t.Context(), "r", q[0], secret+" answer"))
			require.ErrorAs(t, runner(t, g, cfg).Answer(t.Context(), "r", q[0], 7), new(*durable.AnswerError))
			_, err = runner(t, g, cfg).Resume(t.Context(), "r")
			require.ErrorIs(t, err, errBroken)
			res, err := runner(t, g, cfg).Retry(t.Context(), "r", in("s"))
			require.NoError(t, err)
			require.Equal(t, []string{secret + " step", secret, secret + " answer", "end"}, res.State.Log)
			fork, err := runner(t, g, cfg).Fork(t.Context(), "s", 2, &up{Log: []string{secret + " edit"}})
			require.NoError(t, err)
			require.Equal(t, secret+" edit", fork.State.Log[3])
			for _, id := range []string{"r", "s", fork.RunID} {
				for _, e := range eventsOf(t, store, id) {
					assert.NotContains(t, string(e.Meta)+e.Scope+e.Name, secret, e.Kind)
					if name != "deflate" { // which leaves what is short as it is
						assert.NotContains(t, string(e.Payload), secret, e.Kind)
					}
				}
				inbox, err := store.Inbox(t.Context(), id, 0)
				require.NoError(t, err)
				for _, m := range inbox {
					if name != "deflate" {
						assert.NotContains(t, string(m.Payload), secret)
					}
				}
			}
		})
	}
}

// Where only the key is missing nothing is recorded, and whoever has it can go on.
func TestJournal_ARunWhoseKeyIsMissingIsLeftAlone(t *testing.T) {
	old, err := journal.AESGCM(journal.Key{ID: "k1", Secret: []byte("0123456789abcdef")})
	require.NoError(t, err)
	other, err := journal.AESGCM(journal.Key{ID: "k2", Secret: []byte("fedcba9876543210")})
	require.NoError(t, err)
	store, g := newStore(), one(t, asks("?"))
	with := func(c journal.Codec) *superstep.Runner[st, up] {
		return runner(t, g, superstep.Config{Store: store, Codec: c})
	}
	_, err = with(old).Run(t.Context(), st{}, in("r"))
	require.ErrorAs(t, err, new(*durable.SuspendedError))
	before := eventsOf(t, store, "r")
	for range 6 {
		_, err = with(other).Run(t.Context(), st{}, in("r"))
		require.ErrorIs(t, err, journal.ErrUnknownKey)
		_, err = with(other).Resume(t.Context(), "r")
		require.ErrorIs(t, err, journal.ErrUnknownKey)
	}
	require.Equal(t, before, eventsOf(t, store, "r"))
	require.NoError(t, with(old).Answer(t.Context(), "r", "1/a[0]/ask1", "yes"))
	res, err := with(old).Resume(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, []string{"yes"}, res.State.Log)
}

// hostileCodec panics or fails from its n-th encoding on, or at every decoding.
type hostileCodec struct {
	encodings, decodings atomic.Int64
	from, decodeFrom     int64
	err                  error
}

func (c *hostileCodec) Encode(p []byte) ([]byte, error) {
	if n := c.encodings.Add(1); c.from > 0 && n >= c.from {
		if c.err != nil {
			return nil, c.err
		}
		panic("codec out of order")
	}
	return p, nil
}

func (c *hostileCodec) Decode(p []byte) ([]byte, error) {
	if n := c.decodings.Add(1); c.decodeFrom > 0 && n >= c.decodeFrom {
		panic("codec out of order")
	}
	return p, nil
}

func TestJournal_ACodecThatPanicsFailsTheRunAndTheErrorSaysWhosePanicItWas(t *testing.T) {
	isCodecs := func(t *testing.T, err error) {
		t.Helper()
		require.Equal(t, "codec", asError[*journal.PanicError](t, err).Whose)
		require.ErrorAs(t, err, new(*journal.CodecError))
	}
	g := inLine(t, say("a"), func(ctx context.Context, _ st) (up, error) {
		_, err := durable.Step(ctx, "s", func(context.Context) (int, error) { return 1, nil })
		return up{N: 1}, err
	})
	calm := &hostileCodec{}
	_, err := runner(t, g, superstep.Config{Store: newStore(), Codec: calm}).Run(t.Context(), st{}, in("r"))
	require.NoError(t, err)
	for n := int64(1); n <= calm.encodings.Load(); n++ {
		store := newStore()
		r := runner(t, g, superstep.Config{Store: store, Codec: &hostileCodec{from: n}, Logger: quiet()})
		_, err := r.Run(t.Context(), st{}, in("r"))
		isCodecs(t, err)
		if n > 2 { // state and salt are written before there is a run
			require.Equal(t, journal.Failed, statusOf(t, store, "r"), "encoding %d", n)
			_, err = r.Run(t.Context(), st{}, in("r"))
			require.Error(t, err)
		}
	}
	for n := int64(1); n <= calm.decodings.Load(); n++ {
		store := newStore()
		_, err := runner(t, g, superstep.Config{Store: store, Codec: &hostileCodec{decodeFrom: n}, Logger: quiet()}).Run(t.Context(), st{}, in("r"))
		isCodecs(t, err)
	}
	_, err = runner(t, g, superstep.Config{Store: newStore(), Codec: &hostileCodec{from: 3, err: errOther}, Logger: quiet()}).Run(t.Context(), st{}, in("r"))
	require.ErrorIs(t, err, errOther)
}

var errOther = errors.New("another fault")

// What a fan-out was sent cannot be guessed from the hashes in an encrypted journal.
func TestJournal_HashesOfItemsAreSaltedWherePayloadsAreEncoded(t *testing.T) {
	sealed, err := journal.AESGCM(journal.Key{ID: "k", Secret: make([]byte, 32)})
	require.NoError(t, err)
	g := build(t, func(b *bld) {
		a := b.Node("a", say("a"))
		n := graph.Task(b, "n", func(context.Context, st, string) (up, error) { return up{N: 1}, nil })
		b.Start(a)
		b.Route(a, each(n, "moon", "sun"), n)
	})
	plans := map[string]bool{}
	for _, codec := range []journal.Codec{nil, nil, sealed, sealed} {
		store := newStore()
		r := runner(t, g, superstep.Config{Store: store, Codec: codec})
		_, err := r.Run(t.Context(), st{}, in("r"))
		require.NoError(t, err)
		for _, e := range eventsOf(t, store, "r") {
			if e.Kind == journal.SuperStepDone && e.N == 1 {
				plans[string(e.Meta)] = true
			}
		}
		_, err = r.State(t.Context(), "r") // and they are the same when they are asked for again
		require.NoError(t, err)
		_, err = r.Fork(t.Context(), "r", 1, nil, in("f"))
		require.NoError(t, err)
		_, err = runner(t, g, stored(store)).Resume(t.Context(), "r")
		if codec != nil {
			require.ErrorIs(t, err, journal.ErrPayload)
			require.ErrorContains(t, err, "no codec is set")
		}
	}
	require.Len(t, plans, 3)
}
