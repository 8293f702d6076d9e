package classifier

import (
	"encoding/json"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// maxBody is the longest response body that is read for an error object; no API's error object is longer.
const maxBody = 64 << 10

// maxText is how much of an API's message is read.
const maxText = 16 << 10

// maxObjects is how many objects of an array are read: Google sends one.
const maxObjects = 8

// facts are what an API's error object says, in lower case.
type facts struct {
	codes  []string // its code, type, status name and inner code
	text   string   // its message
	perDay bool     // Google: a quota per day is used up
	wait   bool     // Google: it says when to try again
}

func factsOf(e *openai.APIError) facts {
	var codes []string
	if code, is := e.Code.(string); is {
		codes = append(codes, code)
	}
	codes = append(codes, e.Type)
	if e.InnerError != nil {
		codes = append(codes, e.InnerError.Code)
	}
	return newFacts(codes, e.Message)
}

func newFacts(codes []string, text string) facts {
	for i, c := range codes {
		codes[i] = lower(c)
	}
	text = lower(text)
	return facts{
		codes:  codes,
		text:   text,
		perDay: strings.Contains(text, "quota") && (strings.Contains(text, "per day") || strings.Contains(text, "perday")),
		wait:   strings.Contains(text, "retry in ") || strings.Contains(text, "try again in "),
	}
}

func lower(s string) string { return strings.ToLower(s[:min(len(s), maxText)]) }

func (f facts) plus(g facts) facts {
	return facts{
		codes:  append(f.codes, g.codes...),
		text:   f.text + "\n" + g.text,
		perDay: f.perDay || g.perDay,
		wait:   f.wait || g.wait,
	}
}

// errorObject is the part of an error object that the APIs have in common. The members are raw since their types differ.
type errorObject struct {
	Error   json.RawMessage `json:"error"`
	Code    json.RawMessage `json:"code"`
	Type    json.RawMessage `json:"type"`
	Status  json.RawMessage `json:"status"`
	Message json.RawMessage `json:"message"`
	Details json.RawMessage `json:"details"`
}

// bodyFacts reads an error object out of a response body: {"error": {...}}, {"error": "text"}, a flat object, or
// Google's array of these. A body that is none of them says nothing.
func bodyFacts(body []byte) facts {
	if len(body) > maxBody {
		return facts{}
	}
	var list []errorObject
	if json.Unmarshal(body, &list) != nil {
		list = make([]errorObject, 1)
		if json.Unmarshal(body, &list[0]) != nil {
			return facts{}
		}
	}
	var f facts
	for _, o := range list[:min(len(list), maxObjects)] {
		var inner errorObject
		if json.Unmarshal(o.Error, &inner) == nil {
			f = f.plus(inner.facts())
		}
		f = f.plus(o.facts())
	}
	return f
}

func (o errorObject) facts() facts {
	f := newFacts([]string{str(o.Code), str(o.Type), str(o.Status)}, str(o.Message)+"\n"+str(o.Error))
	details := string(o.Details)
	f.perDay = f.perDay || strings.Contains(details, "PerDay")
	f.wait = f.wait || strings.Contains(details, "google.rpc.RetryInfo")
	if strings.Contains(details, "API_KEY_INVALID") {
		f.codes = append(f.codes, "invalid_api_key")
	}
	return f
}

// str returns a JSON string's value, empty for anything else.
func str(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
