package journal_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/retrypolicy"
	"github.com/stretchr/testify/require"
)

// A retry loop around a recorded step decides as it would have decided on the step's own error: live equals replayed.
func TestARetryLoopDecidesTheSameOnARecordedError(t *testing.T) {
	decide := func(t *testing.T, err error) (calls int, reason retrypolicy.Reason, status int, hint time.Duration) {
		t.Helper()
		policy := retrypolicy.New()
		policy.MaxAttempts, policy.InitialDelay = 3, 0
		loop := &retrypolicy.Loop{Policy: policy}
		_, failed := retrypolicy.Do(t.Context(), loop, func(context.Context, int) (int, error) {
			calls++
			return 0, err
		})
		var gaveUp *retrypolicy.AttemptsError
		require.True(t, failed != nil && errors.As(failed, &gaveUp))
		return calls, gaveUp.Reason, gaveUp.Status, gaveUp.Hint
	}
	for name, err := range realErrors() {
		if wait, _ := classifier.RetryHint(err); wait > 0 {
			continue // it would be slept
		}
		t.Run(name, func(t *testing.T) {
			c1, r1, s1, h1 := decide(t, err)
			c2, r2, s2, h2 := decide(t, replayed(t, err))
			require.Equal(t, c1, c2)
			require.Equal(t, r1, r2)
			require.Equal(t, s1, s2)
			require.Equal(t, h1, h2)
		})
	}
}

// facets are errors with some of the methods that interfaces ask for.
type (
	plainFacet   struct{}
	timeoutFacet struct{}
	tempFacet    struct{}
	statusFacet  struct{}
)

func (plainFacet) Error() string        { return "facet" }
func (timeoutFacet) Timeout() bool      { return true }
func (tempFacet) Temporary() bool       { return true }
func (statusFacet) HTTPStatusCode() int { return 418 }

func TestInterfacesMatchIfTheFirstErrorAnswered(t *testing.T) {
	for _, err := range []error{
		plainFacet{},
		struct {
			plainFacet
			timeoutFacet
		}{}, struct {
			plainFacet
			tempFacet
		}{}, struct {
			plainFacet
			statusFacet
		}{},
		struct {
			plainFacet
			timeoutFacet
			tempFacet
		}{}, struct {
			plainFacet
			timeoutFacet
			statusFacet
		}{}, struct {
			plainFacet
			tempFacet
			statusFacet
		}{},
		struct {
			plainFacet
			timeoutFacet
			tempFacet
			statusFacet
		}{},
	} {
		back := replayed(t, fmt.Errorf("x: %w", err))
		for _, q := range questions() {
			was, matched := q.ask(err)
			is, matches := q.ask(back)
			require.Equal(t, matched, matches, "%T: %s", err, q.name)
			if matched {
				sameAnswers(t, was, is)
				require.ErrorIs(t, is.(error), err)
			}
		}
	}
}

func TestCertificatesComeBack(t *testing.T) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.example"}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	host := rebuilt[x509.HostnameError](t, &url.Error{Op: "Get", URL: "x", Err: x509.HostnameError{Certificate: cert, Host: "b.example"}})
	require.True(t, cert.Equal(host.Certificate))
	require.Equal(t, x509.HostnameError{Certificate: cert, Host: "b.example"}.Error(), host.Error())
	require.NotPanics(t, func() {
		rebuilt[x509.HostnameError](t, x509.HostnameError{Certificate: &x509.Certificate{}, Host: "b"})
	})
}

type mapped struct {
	ByBool  map[bool]string
	ByUint  map[uint8]*int
	ByName  map[textError]int
	ByFloat map[float64]int
	Chans   map[string]chan int
	Lists   []chan int
	Bad     map[string]string
	Tree    *mapped
	Addr    net.Addr
	Err     fmt.Stringer
}

func (*mapped) Error() string { return "mapped" }

type otherAddr struct{}

func (otherAddr) Network() string { return "other" }
func (otherAddr) String() string  { return "other:1" }

func TestMapsAndWhatCannotBeInThem(t *testing.T) {
	in := &mapped{
		ByBool: map[bool]string{true: "a", false: ""}, ByUint: map[uint8]*int{3: new(4), 5: nil}, ByName: map[textError]int{"x": 1},
		ByFloat: map[float64]int{1: 1}, Chans: map[string]chan int{"a": nil}, Lists: make([]chan int, 1), Bad: map[string]string{"\xff": "x"},
		Tree: &mapped{ByName: map[textError]int{}}, Addr: otherAddr{}, Err: time.Minute,
	}
	rec := record(in)
	require.Contains(t, string(rec.Value), "other:1", "the text of an address is kept for readers")
	want := *in
	want.ByFloat, want.Chans, want.Lists, want.Bad, want.Addr = nil, nil, nil, nil, nil
	require.Equal(t, &want, rebuilt[*mapped](t, in))
}

// A record of a release that knew fewer well-known values falls back to type and text for the ones it did not ask for.
func TestRecordsThatAskedForFewerValues(t *testing.T) {
	rec := record(io.EOF)
	rec.Is, rec.Asked = nil, 1
	require.ErrorIs(t, rec.Err(), io.EOF)
	rec.Asked = 1000
	require.NotErrorIs(t, rec.Err(), io.EOF)
}

func TestRecordedErrorsAreSafeForConcurrentUse(t *testing.T) {
	back := replayed(t, realErrors()["node"])
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { askEverything(back) })
	}
	wg.Wait()
}

// What is stored is an interface to later releases: a record of today must be read as it stands here.
func TestTheStoredFormIsStable(t *testing.T) {
	err := &url.Error{Op: "Get", URL: "http://x", Err: errors.Join(io.EOF, fmt.Errorf("status: %w", &coded{Status: 503}))}
	require.JSONEq(t, `{
		"type": "*net/url.Error", "text": "Get \"http://x\": EOF\nstatus: coded", "class": "provider_error", "status": 503,
		"timeout": false, "temporary": false, "asked": 48, "value": {"Err": {"cause": 0}, "Op": "Get", "URL": "http://x"},
		"causes": [{"type": "*errors.joinError", "text": "EOF\nstatus: coded", "many": true, "causes": [
			{"type": "*errors.errorString", "text": "EOF", "is": ["io.EOF"], "same": "io.EOF"},
			{"type": "*fmt.wrapError", "text": "status: coded", "causes": [
				{"type": "*github.com/pawl-go/pawl/journal_test.coded", "text": "coded", "http_status": 503, "value": {"Status": 503}}]}]}]}`,
		asJSON(t, record(err)))
	var none journal.ErrorRecord
	require.NoError(t, json.Unmarshal([]byte(`{}`), &none))
	require.EqualError(t, none.Err(), "")
	require.Equal(t, "*x: y", (&journal.ErrorRecord{Type: "*x", Text: "y"}).String())
}
