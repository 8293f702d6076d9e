package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/pawl-go/pawl/providers"
)

// Script answers by rules and records what it was asked. It is safe for concurrent use.
type Script struct {
	rules []Rule

	mu    sync.Mutex
	taken map[counter]int
	calls []Call
}

// counter counts the steps that were taken of a rule, given by its index: all of them, or those of one question.
type counter struct {
	rule     int
	question string
}

// Call is one request that a script has received.
type Call struct {
	// Request is a copy of what was asked, as it reads after a trip through JSON.
	Request providers.Request
	// IdempotencyKey is what came in the Idempotency-Key header, or what the task of the call's context has.
	IdempotencyKey string
}

// New returns a script with the given rules. The first rule that matches a request and is not used up answers it; a
// request that none answers fails with the permanent code scripted_no_rule.
func New(rules ...Rule) *Script {
	return &Script{rules: slices.Clone(rules), taken: map[counter]int{}}
}

// Calls returns what was asked so far, in the order in which it came.
func (s *Script) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Call, len(s.calls))
	for i, c := range s.calls {
		out[i] = Call{Request: clone(c.Request), IdempotencyKey: c.IdempotencyKey}
	}
	return out
}

// Requests returns copies of the requests so far, in the order in which they came.
func (s *Script) Requests() []providers.Request {
	calls := s.Calls()
	out := make([]providers.Request, len(calls))
	for i := range calls {
		out[i] = calls[i].Request
	}
	return out
}

// take records a request and returns the step that answers it, with the number of the call, from 1.
func (s *Script) take(req providers.Request, key string) (step, int) {
	matching := s.matching(req) // user code, so not under the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, Call{Request: req, IdempotencyKey: key})
	n := len(s.calls)
	for _, i := range matching {
		c := counter{rule: i}
		if s.rules[i].perRequest {
			c.question = lastUser(req)
		}
		if st, ok := s.rules[i].step(s.taken[c]); ok {
			s.taken[c]++
			return st, n
		}
	}
	return s.unmatched(req), n
}

// matching returns the indices of the rules that match.
func (s *Script) matching(req providers.Request) []int {
	var out []int
	a := &asked{req: req}
	for i := range s.rules {
		if s.rules[i].matches(a) {
			out = append(out, i)
		}
	}
	return out
}

// unmatched says what was asked without quoting it, and what the script would have answered.
func (s *Script) unmatched(req providers.Request) step {
	names := make([]string, len(s.rules))
	for i := range s.rules {
		names[i] = s.rules[i].conditions()
	}
	why := fmt.Sprintf("no rule of the script answers this request (model %q, %d messages, "+
		"the last of the user has %d characters); the rules are: %s",
		req.Model, len(req.Messages), len([]rune(lastUser(req))), strings.Join(names, "; "))
	if len(names) == 0 {
		why = "the script has no rules"
	}
	st := failure(http.StatusBadRequest, "invalid_request_error", codeNoRule, why).step
	st.unmatched = why
	return st
}

const codeNoRule = "scripted_no_rule"

// copyRequest makes the recorded copy. Both faces go through JSON, so that they record the same.
func copyRequest(req providers.Request) (providers.Request, error) {
	raw, err := json.Marshal(req)
	if err != nil {
		return providers.Request{}, err
	}
	var out providers.Request
	err = json.Unmarshal(raw, &out)
	return out, err
}

// clone copies a request that has been through JSON before, which therefore cannot fail.
func clone(req providers.Request) providers.Request {
	out, err := copyRequest(req)
	if err != nil {
		return req
	}
	return out
}
