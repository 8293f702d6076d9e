package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

// frontScript is what the front model does offline. It has bad moments: of every ten tickets it limits one and fails
// another at first, and of every fifty it breaks off one reply. The gateway before it lets no card number pass.
func frontScript() *scripted.Script {
	toClassify, toReply := scripted.Contains(categoryPrompt), scripted.Contains(replyPrompt)
	rules := []scripted.Rule{scripted.On(scripted.When("a card number", hasCardNumber)).Fail(blocked())}
	for i := 0; i < 200; i += 10 {
		rules = append(rules,
			scripted.On(toClassify, ticket(i+3)).Fail(scripted.RateLimited(50*time.Millisecond)).ReplyFunc(category),
			scripted.On(toClassify, ticket(i+7)).Fail(scripted.Status(http.StatusServiceUnavailable)).ReplyFunc(category),
		)
	}
	for i := 0; i < 200; i += 50 {
		rules = append(rules, scripted.On(toReply, ticket(i+5)).Fail(scripted.Cut("Thank ", "you ", "for ")).ReplyFunc(reply))
	}
	return scripted.New(append(rules, scripted.On(toClassify).ReplyFunc(category), scripted.On(toReply).ReplyFunc(reply))...)
}

// specialistScript is what the specialist does offline: it is down all the time.
func specialistScript() *scripted.Script {
	return scripted.New(scripted.On().Fail(scripted.Page(http.StatusBadGateway)))
}

// backupScript is what the backup does offline: it answers.
func backupScript() *scripted.Script {
	return scripted.New(scripted.On().ReplyFunc(reply))
}

func ticket(n int) scripted.Match { return scripted.Contains(fmt.Sprintf("T-%03d ", n)) }

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
	id, _, _ := strings.Cut(userText(req), " ")
	return "Thank you for " + id + ". We are looking into it."
}

func userText(req providers.Request) string { return req.Messages[len(req.Messages)-1].Content }
