package retrypolicy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/sashabaranov/go-openai"
)

func ExampleDo() {
	loop := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
	answer, err := retrypolicy.Do(context.Background(), loop, func(_ context.Context, attempt int) (string, error) {
		if attempt == 1 {
			return "", &openai.APIError{HTTPStatusCode: 503, Message: "overloaded"}
		}
		return "42", nil
	})
	fmt.Println(answer, err)
	// Output: 42 <nil>
}

func ExampleDo_permanentStatus() {
	loop := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
	_, err := retrypolicy.Do(context.Background(), loop, func(context.Context, int) (string, error) {
		return "", &openai.APIError{HTTPStatusCode: 404, Message: "no such model"}
	})
	if gaveUp, ok := errors.AsType[*retrypolicy.AttemptsError](err); ok {
		fmt.Println(gaveUp.Attempts, gaveUp.Class, gaveUp.Reason, gaveUp.Status)
	}
	// Output: 1 invalid_request permanent status 404
}

func ExampleDo_mark() {
	loop := &retrypolicy.Loop{Policy: retrypolicy.Standard()}
	_, err := retrypolicy.Do(context.Background(), loop, func(context.Context, int) (string, error) {
		return "", classifier.Poison(errors.New("card rejected"), classifier.Code("card.declined"))
	})
	fmt.Println(err)
	fmt.Println(classifier.UserCode(err))
	// Output:
	// pawl: failed after 1 attempt: unknown, marked poison: card rejected
	// card.declined
}

func ExampleLoop() {
	policy := retrypolicy.New()
	policy.MaxAttempts = 2
	policy.InitialDelay = time.Millisecond
	loop := &retrypolicy.Loop{
		Policy:  policy,
		Timeout: 10 * time.Millisecond,
		Observe: func(_ context.Context, a retrypolicy.Attempt) {
			fmt.Printf("%d %s %v %t %q\n", a.Number, a.Class, a.Delay, a.Final, a.Reason)
		},
		Logger: slog.New(slog.DiscardHandler),
	}
	_, err := retrypolicy.Do(context.Background(), loop, func(ctx context.Context, _ int) (string, error) {
		<-ctx.Done() // too slow
		return "", ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// 1 timeout 1ms false ""
	// 2 timeout 0s true "attempts used up"
	// pawl: failed after 2 attempts: timeout, attempts used up: pawl: attempt timed out after 10ms
}

func ExampleWorkflowNodeRetryPolicy_Validate() {
	policy := retrypolicy.Standard()
	policy.MaxAttempts = 0
	policy.Jitter = 1.5
	fmt.Println(policy.Validate())
	// Output:
	// pawl: retry policy: MaxAttempts is 0: use 1 (no retry) or more
	// pawl: retry policy: Jitter is 1.5: use 0 (exact delays) to 1 (anything up to the delay)
}

func ExampleWorkflowNodeRetryPolicy_Warnings() {
	policy := retrypolicy.WorkflowNodeRetryPolicy{MaxAttempts: 3}
	fmt.Println(policy.Validate(), policy.Warnings())
	// Output: <nil> [retry policy: InitialDelay is 0: it retries without any delay]
}

func ExampleWorkflowNodeRetryPolicy_Delay() {
	policy := retrypolicy.Standard()
	fmt.Println(policy.Delay(1, 0, 0), policy.Delay(3, 0, 0), policy.Delay(3, 0, 1), policy.Delay(1, 5*time.Second, 0))
	// Output: 100ms 400ms 200ms 5s
}

func ExampleNew() {
	policy := retrypolicy.New()
	policy.MaxAttempts = 4
	fmt.Println(policy.MaxAttempts, policy.InitialDelay, policy.BackoffMultiplier, policy.Retryable == nil)
	// Output: 4 1s 2 true
}

func ExampleStandard() {
	policy := retrypolicy.Standard()
	fmt.Println(policy.MaxAttempts, policy.InitialDelay, policy.BackoffMultiplier, policy.MaxDelay, policy.Jitter)
	// Output: 3 100ms 2 30s 0.5
}
