package classifier

import (
	"fmt"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// Message returns the text of err without the response bodies that go-openai's RequestErrors put into it, for logs, events
// and other errors' texts. An error whose Error method panics is named by its type. Message(nil) is empty.
func Message(err error) string {
	if err == nil {
		return ""
	}
	text, failed := ask(err.Error)
	if failed != nil {
		return fmt.Sprintf("%T", err)
	}
	var buf [8]node
	for _, n := range flatten(err, buf[:0]) {
		if e, is := original(n.err).(*openai.RequestError); is {
			text = strings.ReplaceAll(text, textOf(n.err), bodyless(e))
		}
	}
	return text
}

// bodyless is the text of a RequestError up to its body.
func bodyless(e *openai.RequestError) string {
	short := *e
	short.Body = nil
	return strings.TrimSuffix(textOf(&short), ", body: ")
}
