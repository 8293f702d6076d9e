package client_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/client"
	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestStartRawNeedsNoCode(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	h, err := c.StartRaw(t.Context(), double.Program(), json.RawMessage(" 4 "), client.ID("d"))
	require.NoError(t, err)
	works(t.Context(), store, double, "d")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.JSONEq(t, "8", string(got))
	h, err = c.StartRaw(t.Context(), journal.Program{Name: "double"}, json.RawMessage("4"), client.ID("d"))
	require.NoError(t, err)
	assert.True(t, h.Existing())
	typed, err := client.Start(t.Context(), c, double, 4, client.ID("d"))
	require.NoError(t, err)
	assert.True(t, typed.Existing(), "it is the same run, however it is started")

	for _, p := range []journal.Program{{}, adder(t, store).Program()} {
		_, err = c.StartRaw(t.Context(), p, json.RawMessage("4"))
		assert.ErrorAs(t, err, new(*client.OptionError))
	}
	_, err = c.StartRaw(t.Context(), double.Program(), json.RawMessage("{"))
	assert.ErrorAs(t, err, new(*journal.NotSerializableError))
	_, err = c.StartRaw(t.Context(), double.Program(), json.RawMessage("1"), client.ID(""))
	assert.ErrorAs(t, err, new(*client.OptionError))
}

func TestStartLikeMakesARunOfTheSameProgram(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	graph := adder(t, store)
	_, err := client.Start(t.Context(), c, graph, tally{N: 5}, client.ID("g"), client.Queue("night"))
	require.NoError(t, err)
	same, err := c.StartLike(t.Context(), "g", nil, client.ID("same"))
	require.NoError(t, err)
	other, err := c.StartLike(t.Context(), "g", json.RawMessage(`{"N":7}`), client.ID("other"), client.Queue("day"))
	require.NoError(t, err)
	for h, want := range map[*client.Handle[json.RawMessage]]struct {
		queue string
		n     int
	}{same: {"night", 6}, other: {"day", 8}} {
		run, err := h.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, graph.Program(), run.Program())
		assert.Equal(t, want.queue, run.Queue)
		assert.Zero(t, run.Link)
		res, err := graph.Resume(t.Context(), h.ID())
		require.NoError(t, err)
		assert.Equal(t, want.n, res.State.N)
	}
}

func TestARunLikeAPartOfAChainBeginsAnew(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	_, err := client.Start(t.Context(), c, countdown, 2, client.ID("c"))
	require.NoError(t, err)
	works(t.Context(), store, countdown, "c")
	h, err := c.StartLike(t.Context(), "c~2", nil, client.ID("d"))
	require.NoError(t, err)
	works(t.Context(), store, countdown, "d")
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.JSONEq(t, `"lift-off"`, string(got))
	_, err = c.Get(t.Context(), "d~2")
	assert.NoError(t, err, "its chain is its own")
}

// startMeta is what the start of a run says of its program.
func startMeta(t *testing.T, store journal.Store, id string) (m durable.StartMeta) {
	t.Helper()
	for e, err := range store.Events(t.Context(), id, 0) {
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(e.Meta, &m))
		break
	}
	return m
}

func TestARunLikeAChildIsNobodysChild(t *testing.T) {
	store := memory.New()
	c := newClient(t, store)
	meta, err := json.Marshal(durable.StartMeta{First: "kid", Part: 2, Parent: "launch"})
	require.NoError(t, err)
	_, err = store.Create(t.Context(), journal.NewRun{
		Run:    journal.Run{ID: "kid~2", Kind: journal.WorkflowRun, Name: "countdown"},
		Events: []journal.Event{{Kind: journal.RunStart, Meta: meta, Payload: []byte("0")}},
	})
	require.NoError(t, err)
	_, err = c.StartLike(t.Context(), "kid~2", nil, client.ID("like"))
	require.NoError(t, err)
	assert.Empty(t, startMeta(t, store, "like").Parent, "whose end would be told to the other one's parent")
}

func TestARunLikeAnotherHasASaltOfItsOwn(t *testing.T) {
	store := memory.New()
	codec, err := journal.AESGCM(journal.Key{ID: "k", Secret: make([]byte, 32)})
	require.NoError(t, err)
	c, err := client.New(store, client.Config{Codec: codec})
	require.NoError(t, err)
	_, err = client.Start(t.Context(), c, adder(t, store), tally{N: 5}, client.ID("g"))
	require.NoError(t, err)
	_, err = c.StartLike(t.Context(), "g", nil, client.ID("like"))
	require.NoError(t, err)
	salt := func(id string) string {
		data, err := journal.DecodeJSON(codec, startMeta(t, store, id).Salt)
		require.NoError(t, err)
		return string(data)
	}
	assert.NotEqual(t, salt("g"), salt("like"))
	_, err = newClient(t, store).StartLike(t.Context(), "g", json.RawMessage(`{"N":1}`))
	assert.ErrorAs(t, err, new(*durable.ReplayError), "what it would write could not be read")
}

func TestPayloadsAreOfTheClientsCodec(t *testing.T) {
	store := memory.New()
	codec, err := journal.AESGCM(journal.Key{ID: "k", Secret: make([]byte, 32)})
	require.NoError(t, err)
	c, err := client.New(store, client.Config{Codec: codec})
	require.NoError(t, err)
	using := durable.Using(durable.Settings{Codec: codec})
	h, err := client.Start(t.Context(), c, echo, "say ", client.ID("e"))
	require.NoError(t, err)
	again, err := client.Start(t.Context(), c, echo, "say ", client.ID("e"))
	require.NoError(t, err)
	assert.True(t, again.Existing(), "what is compared is what was meant")
	_, err = c.StartLike(t.Context(), "e", nil, client.ID("f"))
	require.NoError(t, err)
	for _, id := range []string{"e", "f"} {
		require.NoError(t, c.Signal(t.Context(), id, "word", "hello"))
		_, err = durable.Resume(t.Context(), store, echo, id, using)
		require.NoError(t, err)
		raw, err := c.Handle(id).Result(t.Context())
		require.NoError(t, err)
		assert.JSONEq(t, `"say hello"`, string(raw))
	}
	got, err := h.Result(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "say hello", got)

	keyless := newClient(t, store)
	_, err = keyless.Handle("e").Result(t.Context())
	require.ErrorAs(t, err, new(*durable.ReplayError))
	_, err = keyless.StartLike(t.Context(), "e", nil)
	assert.ErrorAs(t, err, new(*durable.ReplayError))
	_, err = client.Start(t.Context(), keyless, echo, "say ", client.ID("e"))
	assert.ErrorAs(t, err, new(*durable.ReplayError))
}
