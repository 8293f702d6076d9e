package providers

import (
	"iter"
	"slices"

	"github.com/sashabaranov/go-openai"
)

// Collect ranges over a stream and returns the answer that its pieces make, which equals what Chat would have returned.
// An error of the stream is returned as it is, with what had arrived until then (nil if nothing had).
func Collect(stream iter.Seq2[*Delta, error]) (*Response, error) {
	var f Fold
	for d, err := range stream {
		if err != nil {
			return f.Response(), err
		}
		f.Add(d)
	}
	return f.Response(), nil
}

// Fold builds a Response out of Deltas, for those who want to see each piece on the way:
//
//	var f providers.Fold
//	for d, err := range p.Stream(ctx, req) {
//		if err != nil {
//			return err
//		}
//		task.EmitToken(ctx, task.TokenDelta{Text: d.Text(), Provider: d.Provider})
//		f.Add(d)
//	}
//	resp := f.Response()
//
// The zero Fold is ready. It is not safe for concurrent use. It does not judge the answer: the stream does.
type Fold struct {
	seen    bool
	resp    Response
	choices []*foldedChoice // in order of first appearance
}

// Add takes the next piece. It neither keeps nor changes d.
func (f *Fold) Add(d *Delta) {
	if d == nil {
		return
	}
	f.seen = true
	f.addHead(d)
	for i := range d.Choices {
		f.choice(d.Choices[i].Index).add(&d.Choices[i])
	}
}

// addHead takes the fields that repeat in each piece (the first that is set counts) and the usage, of which the last
// counts: some servers report it cumulatively.
func (f *Fold) addHead(d *Delta) {
	setOnce(&f.resp.Provider, d.Provider)
	setOnce(&f.resp.ID, d.ID)
	setOnce(&f.resp.Model, d.Model)
	setOnce(&f.resp.Created, d.Created)
	setOnce(&f.resp.SystemFingerprint, d.SystemFingerprint)
	f.resp.PromptFilterResults = append(f.resp.PromptFilterResults, d.PromptFilterResults...)
	if d.Usage != nil {
		f.resp.Usage = *d.Usage
	}
}

// Response returns the answer so far, or nil if no piece has come. It shares nothing with the Fold.
func (f *Fold) Response() *Response {
	if !f.seen {
		return nil
	}
	r := f.resp
	r.Object = "chat.completion"
	r.PromptFilterResults = slices.Clone(f.resp.PromptFilterResults)
	for _, c := range f.choices {
		r.Choices = append(r.Choices, c.finish())
	}
	slices.SortFunc(r.Choices, func(a, b openai.ChatCompletionChoice) int { return a.Index - b.Index })
	return &r
}

func (f *Fold) choice(index int) *foldedChoice {
	for _, c := range f.choices {
		if c.index == index {
			return c
		}
	}
	c := &foldedChoice{index: index}
	f.choices = append(f.choices, c)
	return c
}
