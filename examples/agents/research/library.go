package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode"
)

// library is a full-text index of a folder of text files.
type library struct {
	passages []passage
	holding  map[string]int // word: how many passages have it
}

// passage is a paragraph of a document.
type passage struct {
	source, text string
	words        map[string]int
}

// openLibrary reads every text file of a folder.
func openLibrary(folder fs.FS) (*library, error) {
	names, err := fs.Glob(folder, "*.txt")
	if err != nil {
		return nil, err
	}
	lib := &library{holding: map[string]int{}}
	for _, name := range names {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		title, body, _ := strings.Cut(string(text), "\n\n")
		for paragraph := range strings.SplitSeq(body, "\n\n") {
			lib.add(passage{source: name, text: strings.TrimSpace(paragraph), words: count(title + " " + paragraph)})
		}
	}
	if len(lib.passages) == 0 {
		return nil, fmt.Errorf("no text in the .txt files of the folder (%d of them)", len(names))
	}
	return lib, nil
}

func (l *library) add(p passage) {
	l.passages = append(l.passages, p)
	for word := range p.words {
		l.holding[word]++
	}
}

// search returns the n passages that fit the query best: those that have its rare words, and have them often.
func (l *library) search(query string, n int) []passage {
	type hit struct {
		passage
		score float64
	}
	var hits []hit
	wanted := count(query)
	for _, p := range l.passages {
		score := 0.0
		for word := range wanted {
			if times := float64(p.words[word]); times > 0 {
				rarity := math.Log(1 + float64(len(l.passages))/float64(l.holding[word]))
				score += rarity * times / (times + 1)
			}
		}
		if score > 0 {
			hits = append(hits, hit{p, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	best := make([]passage, min(n, len(hits)))
	for i := range best {
		best[i] = hits[i].passage
	}
	return best
}

// count returns the words of a text, each with the number of times it occurs.
func count(text string) map[string]int {
	words := map[string]int{}
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for _, word := range strings.FieldsFunc(strings.ToLower(text), between) {
		if len(word) > 2 { // the shortest words say least
			words[strings.TrimSuffix(word, "s")]++
		}
	}
	return words
}
