package main

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// All runs share the models, the limiter and the breaker; yet nothing here depends on which run comes first.
func Example() {
	if err := run(context.Background(), shipped, 0, false); err != nil {
		panic(err)
	}
	// Output:
	// tickets      200    192 in the category that a person had given them
	// category     44     account
	//              62     billing
	//              20     feedback
	//              8      person
	//              66     technical
	// answered by  62     backup
	//              110    front
	//              8      person
	//              20     template
	// retries      22     provider_error
	//              19     rate_limited
	// given up     8      content_filtered, not transient
	// breaker      1      times opened
	// tokens       18245  for prompts
	//              1740   for answers
}

// What the gateway blocks is no outage, if the breaker is told so.
func TestBlockedTicketsDoNotOpenTheBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		rules classifier.RunErrorClassifier
		opens bool
	}{
		"the gateway's rules": {gatewayRules(), false},
		"the default rules":   {classifier.Default(), true},
	} {
		t.Run(name, func(t *testing.T) {
			opened := false
			m, err := openModels(false, tc.rules, func(_, to providers.CircuitState) { opened = to == providers.CircuitOpen })
			require.NoError(t, err)
			defer m.close()
			blocked := askCategory(State{Ticket: Ticket{ID: "T-001", Text: "My card is 4111 1111 1111 1111."}})
			for range 60 {
				_, err := m.front.Chat(t.Context(), blocked)
				require.Error(t, err)
			}
			require.Equal(t, tc.opens, opened)
			_, err = m.front.Chat(t.Context(), askCategory(State{Ticket: Ticket{ID: "T-002", Text: "Where is my invoice?"}}))
			require.Equal(t, tc.opens, err != nil)
		})
	}
}

func TestTheFileIsComplete(t *testing.T) {
	tickets, err := readTickets(shipped, 0)
	require.NoError(t, err)
	require.Len(t, tickets, 200)
	seen := map[string]bool{}
	for _, ticket := range tickets {
		require.False(t, seen[ticket.ID], ticket.ID)
		seen[ticket.ID] = true
		require.NotEmpty(t, ticket.Customer, ticket.ID)
		require.NotEmpty(t, ticket.Subject, ticket.ID)
		require.NotEmpty(t, ticket.Text, ticket.ID)
		require.Contains(t, []string{"billing", "technical", "account", "feedback"}, ticket.Label, ticket.ID)
	}
}

func TestALineThatIsNoTicket(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []byte("{\"id\":\"T-001\"}\nnope"), 0, false), "ticket 2: ")
}

// The model that does not answer with a category is asked again; the last of its answers is a category.
func TestLive(t *testing.T) {
	script := scripted.New(
		scripted.On(scripted.Contains(categoryPrompt)).Reply("Hm.").Reply("Account."),
		scripted.On(scripted.Contains(replyPrompt)).Reply("We will see to it."),
	)
	endpoint := httptest.NewServer(script.Handler())
	defer endpoint.Close()
	t.Setenv("OPENAI_BASE_URL", endpoint.URL+"/v1")
	t.Setenv("OPENAI_API_KEY", "none")
	t.Setenv("OPENAI_MODEL", "big")
	require.NoError(t, run(t.Context(), shipped, 1, true))
	require.Len(t, script.Calls(), 3)
}

func TestLiveNeedsAnEndpoint(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"} {
		t.Setenv(name, "")
	}
	require.ErrorContains(t, run(t.Context(), shipped, 1, true), "-live: OPENAI_MODEL is not set")
}
