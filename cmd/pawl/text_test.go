package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestWantsSaysInWordsWhatASchemaAsksFor(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{``, "any JSON"},
		{`{}`, "any JSON"},
		{`[]`, "any JSON"},
		{`{"type":"boolean"}`, "true or false"},
		{`{"type":"string"}`, "a string"},
		{`{"type":"integer"}`, "a whole number"},
		{`{"type":"number"}`, "a number"},
		{`{"type":["null","string"]}`, "a string or null"},
		{`{"type":["null","boolean","object","array","number","string"]}`, "any JSON"},
		{`{"type":"array","items":{"type":"string"}}`, "a list, each a string"},
		{`{"type":"array"}`, "a list"},
		{`{"enum":["yes","no",3]}`, `"yes" or "no" or 3`},
		{`{"type":"object"}`, "an object"},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, "an object, each value a whole number"},
		{`{"type":"object","additionalProperties":false}`, "an object"},
		{`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"boolean"}},"required":["a"]}`, `{"a": true or false, "b"?: a string}`},
		{`{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"array","items":{}}}}}`,
			"a list, each a list, each a list, each a list, each any JSON"},
	} {
		assert.Equal(t, tt.want, wants([]byte(tt.schema)), tt.schema)
	}
}

func TestTextsAreMadePrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                    "plain",
		"two words":                "two words",
		"潮汐":                       "潮汐",
		"":                         `""`,
		" x":                       `" x"`,
		`"x"`:                      `"\"x\""`,
		"a\nb":                     `"a\nb"`,
		"\xff":                     `"\xff"`,
		strings.Repeat("é", 5_000): strings.Repeat("é", 100) + "... (10000 bytes)",
	} {
		assert.Equal(t, want, printable(text))
	}
	assert.Equal(t, []string{"one", `\x1b[31mtwo "2"`, "    three"}, textLines("one\r\n\x1b[31mtwo \"2\"\n\tthree\n"))
	assert.Equal(t, "... (90 more lines)", textLines(strings.Repeat("x\n", 100))[10])
}

func TestTimesAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 3 * time.Minute: "3m", 47 * time.Hour: "47h", 49 * time.Hour: "2d",
	} {
		assert.Equal(t, want, age(d))
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 1234 * time.Nanosecond: "1µs", 1234567 * time.Nanosecond: "1.2ms", 1234 * time.Millisecond: "1.23s",
		75*time.Second + time.Millisecond: "1m15s", 26 * time.Hour: "26h0m0s",
	} {
		assert.Equal(t, want, span(d))
	}
}

// What is printed has nothing that a terminal would act on, and JSON stays JSON.
func FuzzTextsForTerminals(f *testing.F) {
	for _, text := range []string{"", "a", "\x1b[2J", "\xff\xfe", `{"a":"\u202e b"}`, "\"\U000e0001\"", "a\nb\tc", strings.Repeat("é", 300)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, got := range append(textLines(text), printable(text), quoted(text), shellWord(text), oneLine([]byte(text))) {
			if !isPrintable(got) {
				t.Errorf("%q of %q", got, text)
			}
		}
		if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
			return
		}
		var want, got any
		assert.NoError(t, json.Unmarshal([]byte(text), &want))
		assert.NoError(t, json.Unmarshal([]byte(oneLine([]byte(text))), &got))
		assert.Equal(t, want, got)
		_ = wants([]byte(text))
	})
}
