package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/stretchr/testify/require"
)

func aesgcm(tb testing.TB, keys ...journal.Key) journal.Codec {
	tb.Helper()
	c, err := journal.AESGCM(keys...)
	require.NoError(tb, err)
	return c
}

func key(id string, length int) journal.Key {
	return journal.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), length)}
}

func codecs(tb testing.TB) map[string]journal.Codec {
	tb.Helper()
	return map[string]journal.Codec{
		"nil": nil, "plain": journal.Plain(), "deflate": journal.Deflate(), "sealed": aesgcm(tb, key("k1", 32)), "sealed 128": aesgcm(tb, key("k1", 16)), "sealed 192": aesgcm(tb, key("k1", 24)),
		"both": journal.Codecs(journal.Deflate(), nil, aesgcm(tb, key("k1", 32))), "none": journal.Codecs(),
	}
}

func TestCodecsGiveBackWhatTheyWereGiven(t *testing.T) {
	noise := make([]byte, 100_000)
	rand.New(rand.NewSource(1)).Read(noise)
	for name, c := range codecs(t) {
		for _, payload := range [][]byte{{}, []byte("{}"), []byte(strings.Repeat(`{"a":"b"},`, 10_000)), noise, noise[:300]} {
			was := bytes.Clone(payload)
			stored, err := journal.Encode(c, payload)
			require.NoError(t, err, name)
			require.Equal(t, was, payload, "the payload is not changed")
			kept := bytes.Clone(stored)
			back, err := journal.Decode(c, stored)
			require.NoError(t, err, name)
			require.True(t, bytes.Equal(was, back), name)
			require.Equal(t, kept, stored, "nor is what is stored")
		}
	}
}

func TestDeflateIsShorter(t *testing.T) {
	payload := []byte(strings.Repeat(`{"note":"the tide comes in"},`, 1000))
	stored, err := journal.Encode(journal.Deflate(), payload)
	require.NoError(t, err)
	require.Less(t, len(stored), len(payload)/20)
	short, err := journal.Encode(journal.Deflate(), []byte(`{"a":1}`))
	require.NoError(t, err)
	require.Len(t, short, 8, "a small payload stays as it is behind one byte")
}

// A changed byte must never pass for another payload.
func TestDamagedPayloadsAreFoundOut(t *testing.T) {
	payload := []byte(strings.Repeat(`{"a":"b"},`, 100))
	for name, c := range map[string]journal.Codec{"deflate": journal.Deflate(), "sealed": aesgcm(t, key("k1", 32))} {
		stored, err := journal.Encode(c, payload)
		require.NoError(t, err)
		for i := range stored {
			damaged := bytes.Clone(stored)
			damaged[i] ^= 0x10
			back, err := journal.Decode(c, damaged)
			if err == nil { // a header bit of deflate that means nothing
				require.Equal(t, payload, back, "%s, byte %d", name, i)
				continue
			}
			require.True(t, errors.Is(err, journal.ErrPayload) || errors.Is(err, journal.ErrUnknownKey), "%s, byte %d: %v", name, i, err)
			_, err = journal.Decode(c, stored[:i])
			require.ErrorIs(t, err, journal.ErrPayload, "%s, cut at %d", name, i)
		}
	}
}

func TestDeflateTakesNoMemoryForAPromise(t *testing.T) {
	bomb := append([]byte{1, 0x80, 0x80, 0x80, 0x80, 0x04}, make([]byte, 10)...)
	_, err := journal.Decode(journal.Deflate(), bomb)
	require.ErrorIs(t, err, journal.ErrPayload)
	for _, stored := range [][]byte{nil, {2}, {1}, {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0}} {
		_, err := journal.Decode(journal.Deflate(), stored)
		require.ErrorIs(t, err, journal.ErrPayload)
	}
}

func TestOldKeysOpenAndTheFirstOneSeals(t *testing.T) {
	old, next := key("2025", 32), key("3026", 32)
	before, err := journal.Encode(aesgcm(t, old), []byte(`"x"`))
	require.NoError(t, err)
	both := aesgcm(t, next, old)
	back, err := journal.Decode(both, before)
	require.NoError(t, err)
	require.Equal(t, `"x"`, string(back))
	after, err := journal.Encode(both, []byte(`"x"`))
	require.NoError(t, err)
	_, err = journal.Decode(aesgcm(t, old), after)
	require.ErrorIs(t, err, journal.ErrUnknownKey)
	require.ErrorContains(t, err, `encrypted with key "3026": give AESGCM that key too`)
	wrong := aesgcm(t, journal.Key{ID: "3026", Secret: bytes.Repeat([]byte("z"), 32)})
	_, err = journal.Decode(wrong, after)
	require.ErrorIs(t, err, journal.ErrPayload, "the right name and the wrong secret")
	again, err := journal.Encode(both, []byte(`"x"`))
	require.NoError(t, err)
	require.NotEqual(t, after, again, "a nonce is used once")
}

func TestBadKeysAreRefused(t *testing.T) {
	for name, keys := range map[string][]journal.Key{
		"none": {}, "no ID": {{Secret: make([]byte, 32)}}, "long ID": {{ID: strings.Repeat("x", 256), Secret: make([]byte, 32)}},
		"short": {key("k", 31)}, "empty": {{ID: "k"}}, "twice": {key("k", 32), key("k", 16)},
	} {
		_, err := journal.AESGCM(keys...)
		var bad *journal.KeyError
		require.ErrorAs(t, err, &bad, name)
		require.ErrorContains(t, err, "pawl: key ")
	}
}

func TestKeysNeverShow(t *testing.T) {
	k := journal.Key{ID: "k1", Secret: []byte("0123456789abcdef")}
	c := aesgcm(t, k)
	_, opened := journal.Decode(c, []byte("damaged"))
	_, made := journal.AESGCM(journal.Key{ID: "k", Secret: []byte("0123456789")})
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", k, "keys", []journal.Key{k}, "codec", c)
	raw, err := json.Marshal([]any{k, c})
	require.NoError(t, err)
	shown := log.String() + string(raw) + opened.Error() + made.Error()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown += fmt.Sprintf(format, k) + fmt.Sprintf(format, []journal.Key{k}) + fmt.Sprintf(format, &k) + fmt.Sprintf(format, c)
	}
	require.NotContains(t, shown, "0123456789")
	require.NotContains(t, shown, "30313233")
	require.NotContains(t, shown, "48 49 50")
	require.NotContains(t, shown, "MDEyMzQ1")
	require.Contains(t, shown, "k1")
}

type badCodec struct{ err error }

func (c badCodec) Encode([]byte) ([]byte, error) {
	if c.err != nil {
		return nil, c.err
	}
	panic("boom")
}
func (c badCodec) Decode(b []byte) ([]byte, error) { return c.Encode(b) }

func TestACodecsPanicSaysWhose(t *testing.T) {
	for _, c := range []journal.Codec{badCodec{}, journal.Codecs(badCodec{})} {
		for op, call := range map[string]func(journal.Codec, []byte) ([]byte, error){"encode": journal.Encode, "decode": journal.Decode} {
			_, err := call(c, []byte("x"))
			var p *journal.PanicError
			require.ErrorAs(t, err, &p)
			require.Equal(t, "codec", p.Whose)
			require.ErrorAs(t, err, new(*journal.CodecError))
			require.ErrorContains(t, err, "cannot "+op+" a payload")
			require.Equal(t, classifier.Panic, classifier.Default().Classify(err).Class)
			_, err = call(badCodec{errMine}, []byte("x"))
			require.ErrorIs(t, err, errMine)
		}
	}
}

func TestCodecsAreSafeForConcurrentUse(t *testing.T) {
	for _, c := range codecs(t) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				payload := []byte(strings.Repeat(fmt.Sprint(i), 5000))
				stored, err := journal.Encode(c, payload)
				if err == nil {
					stored, err = journal.Decode(c, stored)
				}
				if err != nil || !bytes.Equal(stored, payload) {
					t.Error("another payload came back", err)
				}
			})
		}
		wg.Wait()
	}
}

func TestPayloadLimit(t *testing.T) {
	require.NoError(t, journal.CheckPayload("Result", make([]byte, journal.DefaultPayloadLimit), 0))
	err := journal.CheckPayload("Result", make([]byte, journal.DefaultPayloadLimit+1), 0)
	var large *journal.PayloadTooLargeError
	require.ErrorAs(t, err, &large)
	require.Equal(t, &journal.PayloadTooLargeError{What: "Result", Size: 16<<20 + 1, Limit: 16 << 20}, large)
	require.ErrorContains(t, err, "raise the payload limit")
	require.True(t, large.Unretryable())
	require.Error(t, journal.CheckPayload("Result", make([]byte, 3), 2))
	require.NoError(t, journal.CheckPayload("Result", make([]byte, 3), -1))
}

func FuzzDecode(f *testing.F) {
	all := codecs(f)
	for _, c := range all {
		stored, err := journal.Encode(c, []byte(strings.Repeat("abc", 200)))
		require.NoError(f, err)
		f.Add(stored)
	}
	f.Fuzz(func(t *testing.T, stored []byte) {
		for _, c := range all {
			payload, err := journal.Decode(c, stored)
			if err != nil {
				continue
			}
			stored2, err := journal.Encode(c, payload)
			require.NoError(t, err)
			again, err := journal.Decode(c, stored2)
			require.NoError(t, err)
			require.True(t, bytes.Equal(payload, again))
		}
	})
}

func BenchmarkDeflate(b *testing.B) {
	c, payload := journal.Deflate(), []byte(strings.Repeat(`{"note":"the tide comes in"},`, 100))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Encode(payload)
	}
}
