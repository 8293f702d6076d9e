package retrypolicy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

const (
	// longestDelay is the cap of every delay, about 49.7 days: the limit of Tracon's WorkflowNodeRetryPolicy.
	longestDelay = 4294967294 * time.Millisecond
	// longestHint is the longest wait that a server may ask for where MaxDelay sets no limit.
	longestHint = 5 * time.Minute
)

// WorkflowNodeRetryPolicy says how often a call is repeated after a failure, how long to wait in between, and which
// failures to repeat. It is a plain value: copy it freely. Fields mean what they say and are never filled in; start from New or
// Standard. The zero value is not valid.
type WorkflowNodeRetryPolicy struct {
	// MaxAttempts is the most calls, the first one included; 1 means no retry. At least 1.
	MaxAttempts int
	// InitialDelay is the delay before the second attempt, from 0 to 4294967294 ms (about 49.7 days).
	InitialDelay time.Duration
	// BackoffMultiplier is what the delay is multiplied by after each further attempt: finite, not negative.
	BackoffMultiplier float64
	// MaxDelay caps every delay, and is the longest wait a server's hint can ask for. With 0 a delay grows to about 49.7
	// days and a hint can ask for 5 minutes. Not negative.
	MaxDelay time.Duration
	// Jitter is the fraction of each delay that is random, from 0 (exact) to 1 (anything up to the delay).
	Jitter float64
	// Retryable says which errors are repeated; nil leaves it to the error's class. It is not asked about errors
	// that are never repeated (see Do). It must be safe for concurrent use.
	Retryable func(error) bool
}

// New returns the policy of Tracon's WorkflowNodeRetryPolicy: one attempt, 1 s, doubled each time, no jitter, no cap of
// its own; an error's class decides. Set MaxAttempts to have retries.
func New() WorkflowNodeRetryPolicy {
	return WorkflowNodeRetryPolicy{MaxAttempts: 1, InitialDelay: time.Second, BackoffMultiplier: 2}
}

// Standard returns the policy of Pyrula's RetryPolicy: 3 attempts, 100 ms, doubled each time, at most 30 s, half of it random;
// every error is retryable. It is meant for one's own steps.
func Standard() WorkflowNodeRetryPolicy {
	return WorkflowNodeRetryPolicy{
		MaxAttempts:       3,
		InitialDelay:      100 * time.Millisecond,
		BackoffMultiplier: 2,
		MaxDelay:          30 * time.Second,
		Jitter:            0.5,
		Retryable:         AnyError,
	}
}

// AnyError is a Retryable that says yes to every error.
func AnyError(err error) bool { return err != nil }

// FieldError is a field of a policy that is out of range.
type FieldError struct {
	// Field is the field's name, such as "Jitter".
	Field string
	// Value is the field's value as text.
	Value string
	// Remedy says what to do.
	Remedy string
}

// Error names the field, its value and what to do.
func (e *FieldError) Error() string {
	return fmt.Sprintf("pawl: retry policy: %s is %s: %s", e.Field, e.Value, e.Remedy)
}

// Validate returns nil, or one *FieldError for each field that is out of range, joined.
func (p WorkflowNodeRetryPolicy) Validate() error {
	var bad []error
	check := func(ok bool, field, value, remedy string) {
		if !ok {
			bad = append(bad, &FieldError{Field: field, Value: value, Remedy: remedy})
		}
	}
	check(p.MaxAttempts >= 1, "MaxAttempts", strconv.Itoa(p.MaxAttempts), "use 1 (no retry) or more")
	check(p.InitialDelay >= 0 && p.InitialDelay <= longestDelay, "InitialDelay", p.InitialDelay.String(),
		"use 0 to 4294967294 ms (about 49.7 days)")
	check(p.BackoffMultiplier >= 0 && !math.IsInf(p.BackoffMultiplier, 1), "BackoffMultiplier", float(p.BackoffMultiplier),
		"use a finite number, 0 or more")
	check(p.MaxDelay >= 0, "MaxDelay", p.MaxDelay.String(), "use 0 (no cap below about 49.7 days) or more")
	check(p.Jitter >= 0 && p.Jitter <= 1, "Jitter", float(p.Jitter), "use 0 (exact delays) to 1 (anything up to the delay)")
	return errors.Join(bad...)
}

// Warnings says what is legal but seldom meant: retries without a delay, and an initial delay above the cap. It is for
// whoever registers a policy, to log.
func (p WorkflowNodeRetryPolicy) Warnings() []string {
	var warnings []string
	switch {
	case p.MaxAttempts > 1 && p.InitialDelay == 0:
		warnings = append(warnings, "retry policy: InitialDelay is 0: it retries without any delay")
	case p.MaxAttempts > 2 && p.BackoffMultiplier == 0:
		warnings = append(warnings, "retry policy: BackoffMultiplier is 0: it retries without any delay after the second attempt")
	}
	if p.MaxDelay > 0 && p.MaxDelay < p.InitialDelay {
		warnings = append(warnings, "retry policy: MaxDelay is below InitialDelay: every delay is MaxDelay")
	}
	return warnings
}

// Delay returns the wait after attempt number attempt (from 1) has failed: InitialDelay multiplied attempt-1 times by
// BackoffMultiplier, capped by MaxDelay and always by 4294967294 ms. Of that delay d, jitter leaves (1-Jitter)*d for a rand
// of 1 and d for a rand of 0; rand is a random number from 0 to 1. A hint, the least wait a server asked for, is a
// floor for the result, the only thing that can exceed the caps; 0 or less is no hint.
//
// It is a pure function, and total: whatever the fields and arguments are, the result is not negative.
func (p WorkflowNodeRetryPolicy) Delay(attempt int, hint time.Duration, rand float64) time.Duration {
	d := p.backoff(attempt)
	if jitter := unit(p.Jitter) * unit(rand); jitter > 0 {
		d = max(0, d-time.Duration(jitter*float64(d)))
	}
	return max(d, hint)
}

// backoff is the delay without jitter. Growth is computed in floating point, where too much is +Inf and not negative.
func (p WorkflowNodeRetryPolicy) backoff(attempt int) time.Duration {
	limit := p.limit()
	if p.InitialDelay <= 0 {
		return 0
	}
	if attempt <= 1 || p.BackoffMultiplier == 1 {
		return min(p.InitialDelay, limit)
	}
	grown := float64(p.InitialDelay) * math.Pow(p.BackoffMultiplier, float64(attempt-1))
	switch {
	case grown >= float64(limit):
		return limit
	case grown > 0:
		return time.Duration(grown)
	}
	return 0 // NaN, or a negative multiplier
}

// limit is the longest delay.
func (p WorkflowNodeRetryPolicy) limit() time.Duration {
	if p.MaxDelay > 0 {
		return min(p.MaxDelay, longestDelay)
	}
	return longestDelay
}

// hintLimit is the longest wait that a hint can ask for.
func (p WorkflowNodeRetryPolicy) hintLimit() time.Duration {
	if p.MaxDelay > 0 {
		return p.limit()
	}
	return longestHint
}

// unit brings a number into [0, 1]; what is no number is 0.
func unit(f float64) float64 {
	if f >= 0 {
		return min(f, 1)
	}
	return 0
}

func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
