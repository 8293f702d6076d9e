package classifier_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-go/pawl/classifier"
	"github.com/sashabaranov/go-openai"
)

func ExampleDefault() {
	c := classifier.Default()
	for _, err := range []error{
		&openai.APIError{HTTPStatusCode: 429, Code: "rate_limit_exceeded"},
		&openai.APIError{HTTPStatusCode: 429, Code: "insufficient_quota"},
		fmt.Errorf("node: %w", context.DeadlineExceeded),
		errors.New("upstream failed: status code: 404"),
		errors.New("something odd"),
	} {
		class := c.Classify(err).Class
		fmt.Println(class, class.Transient())
	}
	// Output:
	// rate_limited true
	// quota_exceeded false
	// timeout true
	// invalid_request false
	// unknown false
}

var errFull = errors.New("warehouse is full")

func ExampleChain() {
	mine := classifier.Func(func(err error) classifier.Classification {
		if errors.Is(err, errFull) {
			return classifier.Classification{Class: classifier.RateLimited}
		}
		return classifier.Classification{Class: classifier.Unknown}
	})
	c := classifier.Chain(mine, classifier.Default())
	fmt.Println(c.Classify(errFull).Class)
	fmt.Println(c.Classify(&openai.APIError{HTTPStatusCode: 401}).Class)
	// Output:
	// rate_limited
	// unauthorized
}

func ExampleGuard() {
	broken := classifier.Func(func(error) classifier.Classification { panic("oops") })
	c := classifier.Guard(broken, discard)
	fmt.Println(c.Classify(&openai.APIError{HTTPStatusCode: 503}).Class)
	// Output: provider_error
}

func ExamplePermanentHTTPStatus() {
	for _, err := range []error{
		errors.Join(errors.New("x"), &openai.APIError{HTTPStatusCode: 404}),
		errors.New("upstream said HTTP 503"),
	} {
		fmt.Println(classifier.PermanentHTTPStatus(err))
	}
	// Output:
	// 404 true
	// 0 false
}

func ExampleHTTPStatus() {
	fmt.Println(classifier.HTTPStatus(errors.New("upstream said HTTP 503")))
	// Output: 503 true
}

func ExamplePoison() {
	err := classifier.Poison(errors.New("card rejected"), classifier.Code("card.declined"))
	err = fmt.Errorf("charge: %w", err)
	fmt.Println(err)
	fmt.Println(classifier.MarkOf(err), classifier.UserCode(err))
	// Output:
	// charge: card rejected
	// poison card.declined
}

func ExampleTransient() {
	err := classifier.Transient(errors.New("lock held"))
	fmt.Println(err, classifier.MarkOf(err))
	// Output: lock held transient
}

func ExampleFatal() {
	err := classifier.Fatal(errors.New("no API key"), classifier.Code("not a code"))
	var bad *classifier.CodeError
	fmt.Println(classifier.MarkOf(err), errors.As(err, &bad))
	fmt.Println(bad)
	// Output:
	// fatal true
	// pawl: user code of 10 bytes is no code: use 1 to 64 letters, digits and _ . : -
}

func ExampleFingerprint() {
	one := classifier.Fingerprint(`tool "search": request req_011CSHoEeqs5 failed after 31 s`)
	two := classifier.Fingerprint(`tool "search": request req_018EeHqVnbFx failed after 8 s`)
	other := classifier.Fingerprint(`tool "fetch": request req_018EeHqVnbFx failed after 8 s`)
	fmt.Println(one == two, one == other)
	// Output: true false
}

func ExampleMessage() {
	err := &openai.RequestError{HTTPStatusCode: 502, HTTPStatus: "502 Bad Gateway", Err: errors.New("no JSON"), Body: []byte("<html>...")}
	fmt.Println(classifier.Message(fmt.Errorf("node: %w", err)))
	// Output: node: error, status code: 502, status: 502 Bad Gateway, message: no JSON
}

func ExampleRetryHint() {
	err := fmt.Errorf("node: %w", busy{})
	fmt.Println(classifier.RetryHint(err))
	fmt.Println(classifier.RetryRefused(err))
	// Output:
	// 5s true
	// false
}

func ExampleTree() {
	for err := range classifier.Tree(fmt.Errorf("node: %w", errors.Join(errors.New("a"), errors.New("b")))) {
		fmt.Printf("%q\n", err)
	}
	// Output:
	// "node: a\nb"
	// "a\nb"
	// "a"
	// "b"
}
