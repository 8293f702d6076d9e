package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// output writes texts and keeps the first error until flush.
type output struct {
	w   *bufio.Writer
	err error
}

func newOutput(w io.Writer) *output { return &output{w: bufio.NewWriter(w)} }

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.keep(err)
	return n, err
}

func (o *output) keep(err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *output) printf(format string, args ...any) {
	_, err := fmt.Fprintf(o.w, format, args...)
	o.keep(err)
}

// json writes one object on a line of its own.
func (o *output) json(v any) {
	enc := json.NewEncoder(o.w)
	enc.SetEscapeHTML(false)
	o.keep(enc.Encode(v))
}

// flush returns the first error there was.
func (o *output) flush() error {
	o.keep(o.w.Flush())
	if o.err != nil {
		return fmt.Errorf("pawl: write the output: %w", o.err)
	}
	return nil
}

// table is rows whose columns are aligned.
type table struct {
	text strings.Builder
	w    *tabwriter.Writer
	o    *output
}

func (o *output) table() *table {
	const gap = 2
	t := &table{o: o}
	t.w = tabwriter.NewWriter(&t.text, 0, 0, gap, ' ', 0)
	return t
}

// row adds a row. The cells have no control characters.
func (t *table) row(cells ...string) {
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t")) // into a Builder
}

// end prints the table.
func (t *table) end() {
	_ = t.w.Flush() // into a Builder
	for line := range strings.Lines(t.text.String()) {
		t.o.printf("%s\n", strings.TrimRight(line, " \n"))
	}
}
