package classifier

import (
	"slices"
	"strconv"
	"strings"
)

// class is the class of an error object that came with a status, 0 for none. Codes are read first: they tell a quota from
// a rate limit.
func (f facts) class(status int) RunErrorClass {
	switch {
	case f.contentFiltered():
		return ContentFiltered
	case f.quotaExceeded(status):
		return QuotaExceeded
	case f.has("context_length_exceeded"), f.tooLarge(status):
		return InvalidRequest
	case f.badKey(status):
		return Unauthorized
	case status >= 400:
		return statusClass(status)
	}
	return f.typeClass()
}

// typeClass is the class of an error object without a status: a failure inside a stream.
func (f facts) typeClass() RunErrorClass {
	switch {
	case f.has("invalid_request_error", "not_found_error", "request_too_large"):
		return InvalidRequest
	case f.has("permission_error", "permission_denied"):
		return Unauthorized
	case f.has("rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"):
		return RateLimited
	case f.has("timeout_error", "timeout"):
		return Timeout
	}
	return ProviderError
}

func (f facts) contentFiltered() bool {
	return f.has("content_filter", "content_policy_violation", "moderation_blocked", "responsibleaipolicyviolation")
}

func (f facts) quotaExceeded(status int) bool {
	if f.has("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
		"credit_balance_exhausted") || f.codeContains("spend_limit") || f.codeContains("usage_limit") {
		return true
	}
	switch status {
	case 0, 400, 403, 429:
		return f.says("credit balance is too low", "budget has been exceeded") || (f.perDay && !f.wait && status != 400)
	}
	return false
}

// tooLarge reports whether one request alone is above a rate limit: no wait makes it pass.
func (f facts) tooLarge(status int) bool {
	if status != 429 {
		return false
	}
	if limit, requested, ok := f.limit(); ok {
		return requested > limit
	}
	return f.says("request too large")
}

// limit reads OpenAI's "Limit 30000, Used 100, Requested 30182".
func (f facts) limit() (limit, requested int, ok bool) {
	limit, ok1 := numberAfter(f.text, "limit")
	requested, ok2 := numberAfter(f.text, "requested")
	return limit, requested, ok1 && ok2
}

// numberAfter returns the first number that directly follows word.
func numberAfter(text, word string) (n int, ok bool) {
	for {
		_, rest, found := strings.Cut(text, word)
		if !found {
			return 0, false
		}
		digits := strings.TrimLeft(rest, ": ")
		end := 0
		for end < len(digits) && isDigit(digits[end]) {
			end++
		}
		if n, err := strconv.Atoi(digits[:end]); err == nil {
			return n, true
		}
		text = rest
	}
}

// badKey reports whether the credentials were refused, which some APIs report as 400.
func (f facts) badKey(status int) bool {
	if status != 0 && status != 400 {
		return false
	}
	return f.has("invalid_api_key", "authentication_error", "invalid_authentication", "unauthenticated") ||
		f.says("api key not valid", "incorrect api key", "invalid api key")
}

func (f facts) has(codes ...string) bool {
	for _, c := range f.codes {
		if slices.Contains(codes, c) {
			return true
		}
	}
	return false
}

func (f facts) codeContains(part string) bool {
	for _, c := range f.codes {
		if strings.Contains(c, part) {
			return true
		}
	}
	return false
}

func (f facts) says(phrases ...string) bool {
	for _, p := range phrases {
		if strings.Contains(f.text, p) {
			return true
		}
	}
	return false
}
