package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-go/pawl/journal"
)

// An error that is recorded, stored and read again answers as it did.
func ExampleRecordError() {
	_, err := os.ReadFile("no/such/file")
	stored, _ := json.Marshal(journal.RecordError(err, journal.ErrorFacts{Class: "unknown"}))

	var record journal.ErrorRecord
	if err := json.Unmarshal(stored, &record); err != nil {
		fmt.Println(err)
	}
	replayed := record.Err()

	var path *fs.PathError
	fmt.Println(errors.As(replayed, &path) && path.Path == "no/such/file")
	fmt.Println(errors.Is(replayed, fs.ErrNotExist))
	fmt.Println(replayed)
	// Output:
	// true
	// true
	// open no/such/file: no such file or directory
}

// To change the key, put the new one first; what the old one has encrypted can still be read.
func ExampleAESGCM() {
	old := journal.Key{ID: "2025", Secret: bytes.Repeat([]byte{1}, 32)} // 32 bytes from a vault
	codec, err := journal.AESGCM(journal.Key{ID: "2026", Secret: bytes.Repeat([]byte{2}, 32)}, old)
	if err != nil {
		fmt.Println(err)
	}
	stored, err := journal.Encode(codec, []byte(`{"topic":"tides"}`))
	fmt.Println(bytes.Contains(stored, []byte("tides")), err)

	payload, err := journal.Decode(codec, stored)
	fmt.Println(string(payload), err)
	// Output:
	// false <nil>
	// {"topic":"tides"} <nil>
}

// Compression comes before encryption.
func ExampleDeflate() {
	key := journal.Key{ID: "2026", Secret: bytes.Repeat([]byte{2}, 32)}
	sealed, err := journal.AESGCM(key)
	if err != nil {
		fmt.Println(err)
	}
	codec := journal.Codecs(journal.Deflate(), sealed)
	stored, err := journal.Encode(codec, []byte(strings.Repeat("the tide comes in, ", 1000)))
	fmt.Println(len(stored) < 300, err)
	// Output: true <nil>
}

// A value that JSON cannot hold is named with its place.
func ExampleMarshal() {
	type Result struct{ Notify []chan int }
	_, err := journal.Marshal("Result", Result{Notify: make([]chan int, 1)})
	fmt.Println(err)
	// Output: pawl: Result.Notify[0]: a channel (chan int) cannot be journaled: return what JSON can hold, or leave the field out with `json:"-"`
}

// A shape tells types and sizes, and no value.
func ExampleShapeOf() {
	fmt.Println(journal.ShapeOf(struct {
		Topic string
		Notes []string
	}{"private tides", []string{"a", "b", "c"}}))
	// Output: {Topic: string(13), Notes: [3]string}
}
