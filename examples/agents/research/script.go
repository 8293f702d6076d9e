package main

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

// script is what the offline model does. It cannot think, but it reads: what it answers is made of what it is asked, so
// the text at the end comes out of the documents. And it fails: the plan meets an overloaded server, one of the searches
// a rate limit, the first draft breaks off in the middle.
func script() *scripted.Script {
	return scripted.New(
		scripted.On(scripted.Contains(planPrompt)).
			Fail(scripted.Status(503)).
			Reply("why moon and sun pull up bulges of the sea\nspring tides and neap tides\nhow sailors use tide tables to know the depth"),
		scripted.On(scripted.Contains(outlinePrompt)).
			Reply("causes, rhythm, use"),
		scripted.On(scripted.Contains(searchPrompt), scripted.Contains("Query: spring tides")).
			Fail(scripted.RateLimited(300*time.Millisecond)).
			ReplyFunc(firstSentence),
		scripted.On(scripted.Contains(searchPrompt)).
			ReplyFunc(firstSentence),
		scripted.On(scripted.Contains(draftPrompt)).
			Fail(scripted.Cut("Tides ", "are ", "caused ", "by ", "the ", "wi")).Every(5*time.Millisecond).
			ReplyFunc(joinNotes).Every(5*time.Millisecond),
		scripted.On(scripted.Contains(reviewPrompt)).
			ReplyFunc(missingSource),
	)
}

// A passage in a prompt looks like this: "- [tides.txt] Tides are caused by... It is...".
var (
	line   = regexp.MustCompile(`(?m)^- \[(.+?)\] (.+?\.)( .*)?$`)
	source = regexp.MustCompile(`\[(.+?)\]`)
)

// firstSentence answers a search with the first sentence of the best passage.
func firstSentence(req providers.Request) string {
	best := line.FindStringSubmatch(prompt(req))
	if best == nil {
		return "The library says nothing about it."
	}
	return best[2] + " [" + best[1] + "]"
}

// joinNotes writes a draft: the notes one after the other. It forgets one until the reviewer complains.
func joinNotes(req providers.Request) string {
	var notes []string
	for note := range strings.Lines(prompt(req)) {
		if text, ok := strings.CutPrefix(note, "* "); ok {
			notes = append(notes, strings.TrimSpace(text))
		}
	}
	if !strings.Contains(prompt(req), "Remark:") {
		notes = notes[:max(1, len(notes)-1)]
	}
	return strings.Join(notes, "\n")
}

// missingSource reviews a draft: each source of the notes must be in it.
func missingSource(req providers.Request) string {
	notes, draft, _ := strings.Cut(prompt(req), "Draft:")
	for _, name := range source.FindAllString(notes, -1) {
		if !slices.Contains(source.FindAllString(draft, -1), name) {
			return "What " + name + " says is missing."
		}
	}
	return "ACCEPT"
}

func prompt(req providers.Request) string { return req.Messages[0].Content }
