package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

// frontScript is what the front model does offline. It has bad moments: of every ten tickets it limits one and fails
// another at first, and of every fifty it breaks off one reply. The gateway before it lets no card number pass.
func frontScript() *scripted.Script {
	toClassify, toReply := scripted.Contains(categoryPrompt), scripted.Contains(replyPrompt)
	return scripted.New(
		scripted.On(scripted.When("a card number", hasCardNumber)).Fail(blocked()),
		scripted.On(toClassify, ticket("3")).PerRequest().
			Fail(scripted.RateLimited(50*time.Millisecond)).ReplyFunc(category),
		scripted.On(toClassify, ticket("7")).PerRequest().
			Fail(scripted.Status(http.StatusServiceUnavailable)).ReplyFunc(category),
		scripted.On(toReply, ticket("05", "55")).PerRequest().
			Fail(scripted.Cut("Thank ", "you ", "for ")).ReplyFunc(reply),
		scripted.On(toClassify).ReplyFunc(category),
		scripted.On(toReply).ReplyFunc(reply),
	)
}

// specialistScript is what the specialist does offline: it is down all the time.
func specialistScript() *scripted.Script {
	return scripted.New(scripted.On().Fail(scripted.Page(http.StatusBadGateway)))
}

// backupScript is what the backup does offline: it answers.
func backupScript() *scripted.Script {
	return scripted.New(scripted.On().ReplyFunc(reply))
}

// ticket is met by the tickets whose number ends so.
func ticket(endings ...string) scripted.Match {
	return scripted.When(fmt.Sprintf("ticket ends with one of %q", endings), func(req providers.Request) bool {
		return slices.ContainsFunc(endings, func(end string) bool { return strings.HasSuffix(ticketID(req), end) })
	})
}

// blocked is how the gateway reports that its data-loss filter has stopped a request.
func blocked() scripted.Failure {
	return scripted.HTTP(http.StatusInternalServerError, http.Header{"Content-Type": {"application/json"}},
		`{"error":{"message":"request stopped","type":"gateway","code":"dlp_blocked"}}`)
}

var cardNumber = regexp.MustCompile(`\b(\d{4} ){3}\d{4}\b`)

func hasCardNumber(req providers.Request) bool { return cardNumber.MatchString(userText(req)) }

// category tells the category by the words of the ticket; the first that has one of its words counts.
func category(req providers.Request) string {
	text := strings.ToLower(userText(req))
	for _, c := range []struct{ name, words string }{
		{"feedback", "thank you|well done|good work|joy"},
		{"technical", "error|crashes|bug|fail|502|notification|slow"},
		{"billing", "invoice|charged|refund|pay|price|discount"},
	} {
		if regexp.MustCompile(`\b(` + c.words + `)`).MatchString(text) {
			return c.name
		}
	}
	return "account"
}

func reply(req providers.Request) string {
	return "Thank you for " + ticketID(req) + ". We are looking into it."
}

func ticketID(req providers.Request) string {
	id, _, _ := strings.Cut(userText(req), " ")
	return id
}

func userText(req providers.Request) string { return req.Messages[len(req.Messages)-1].Content }
