package providertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers/scripted"
	"github.com/stretchr/testify/require"
)

// secrets checks that an error, and whatever it wraps, shows nothing of what a server quotes.
func (s suite) secrets(t *testing.T) {
	quoted := append([]string{prompt}, s.Secrets...)
	text, err := json.Marshal("you sent " + strings.Join(quoted, " and "))
	require.NoError(t, err)
	object := fmt.Sprintf(`{"error":{"message":%[1]s,"type":%[1]s,"code":%[1]s,"param":%[1]s}}`, text)
	for name, f := range map[string]scripted.Failure{
		"error object":  scripted.HTTP(400, nil, object),
		"text":          scripted.HTTP(500, nil, string(text)),
		"page":          scripted.HTTP(502, nil, "<html>"+string(text)),
		"list":          scripted.HTTP(400, nil, "["+object+"]"),
		"flat":          scripted.HTTP(422, nil, fmt.Sprintf(`{"error":%s}`, text)),
		"header":        scripted.HTTP(429, header("X-Request-Id", string(text)), object),
		"error in 200":  scripted.HTTP(200, nil, object),
		"unreadable":    scripted.HTTP(200, nil, string(text)),
		"wrong kinds":   scripted.HTTP(200, nil, fmt.Sprintf(`{"choices":%s}`, text)),
		"a refusal":     scripted.Refusal(string(text)),
		"a cut answer":  scripted.Cut(string(text)),
		"a long answer": scripted.Truncated(string(text)),
	} {
		p := s.New(t, scripted.New(scripted.On().Fail(f)))
		for way, call := range ways(p) {
			t.Run(name+" "+way, func(t *testing.T) {
				_, err := call(t.Context(), request())
				require.Error(t, err)
				for e := range classifier.Tree(err) {
					for _, secret := range quoted {
						require.NotContains(t, fmt.Sprintf("%v %+v %s", e, e, e), secret, "%T", e)
					}
				}
			})
		}
	}
}

// concurrency checks that calls do not get into each other's way.
func (s suite) concurrency(t *testing.T) {
	const calls = 100
	rules := make([]scripted.Rule, calls)
	for i := range rules {
		rules[i] = scripted.On(scripted.Last(fmt.Sprintf("number %03d", i))).Reply(fmt.Sprintf("answer %03d", i))
	}
	script := scripted.New(rules...)
	p := s.New(t, script)
	var wg sync.WaitGroup
	errs := make([]error, calls)
	texts := make([]string, calls)
	for i := range calls {
		wg.Go(func() {
			req := request()
			req.Messages = append(req.Messages, req.Messages[1])
			req.Messages[2].Content = fmt.Sprintf("number %03d", i)
			call := ways(p)[[]string{"Chat", "Stream"}[i%2]]
			resp, err := call(t.Context(), req)
			texts[i], errs[i] = resp.Text(), err
		})
	}
	wg.Wait()
	for i := range calls {
		require.NoError(t, errs[i])
		require.Equal(t, fmt.Sprintf("answer %03d", i), texts[i])
	}
	require.Len(t, script.Calls(), calls)
}
