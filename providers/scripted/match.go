package scripted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-go/pawl/providers"
	"github.com/sashabaranov/go-openai"
)

// Match is a condition on a request.
type Match struct {
	name string
	test func(*asked) bool // nil: it is met
}

// asked is the request that is matched.
type asked struct {
	req    providers.Request  // the record: nobody changes it
	copied *providers.Request // for the user's conditions; made when the first of them is asked
}

func (a *asked) copy() providers.Request {
	if a.copied == nil {
		c := clone(a.req)
		a.copied = &c
	}
	return *a.copied
}

// When is a condition of your own; the name stands in errors. The function gets a copy of the request, which all such
// conditions of a script share: it must not change it. It must be safe for concurrent use.
func When(name string, test func(providers.Request) bool) Match {
	if test == nil {
		return Match{name: name}
	}
	return Match{name: name, test: func(a *asked) bool { return test(a.copy()) }}
}

// Contains is met if some message contains the text.
func Contains(text string) Match {
	return Match{name: fmt.Sprintf("contains %q", text), test: func(a *asked) bool {
		return slices.ContainsFunc(a.req.Messages, func(m providers.Message) bool { return strings.Contains(textOf(m), text) })
	}}
}

// Last is met if the last message contains the text.
func Last(text string) Match {
	return Match{name: fmt.Sprintf("last contains %q", text), test: func(a *asked) bool {
		messages := a.req.Messages
		return len(messages) > 0 && strings.Contains(textOf(messages[len(messages)-1]), text)
	}}
}

// Model is met if the request asks for the model.
func Model(model string) Match {
	return Match{name: fmt.Sprintf("model %q", model), test: func(a *asked) bool { return a.req.Model == model }}
}

// lastUser returns the text of the user's last message.
func lastUser(req providers.Request) string {
	for _, m := range slices.Backward(req.Messages) {
		if m.Role == openai.ChatMessageRoleUser {
			return textOf(m)
		}
	}
	return ""
}

// textOf returns the text of a message, also of one made of parts.
func textOf(m providers.Message) string {
	if len(m.MultiContent) == 0 {
		return m.Content
	}
	var b strings.Builder
	for _, part := range m.MultiContent {
		b.WriteString(part.Text)
	}
	return b.String()
}
