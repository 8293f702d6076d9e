package openai

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/internal/wire"
)

// transportError is a request that got no answer, or not a whole one. Only texts of package net are shown: what a user's
// own transport returns may hold anything, and a *url.Error quotes the URL.
func transportError(source wire.Source, err error) *providers.CallError {
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err
	}
	e := source.Broken("the connection failed", err)
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		e.NotSent, e.Detail = true, "the endpoint's host was not found: "+dns.Error()
	case errors.As(err, &op):
		e.NotSent, e.Detail = op.Op == "dial", "the connection failed: "+op.Error()
	case errors.As(err, &cert):
		e.NotSent, e.Detail = true, "the endpoint's certificate is not trusted"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Detail = wire.DetailCut
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		e.Class, e.Detail = classifier.Timeout, "no answer in the time that the HTTP client allows"
	case errors.Is(err, context.Canceled):
		// Nobody cancelled the call, or Conform would not get to see this: it is a failure like any other.
		e.Err = nil
	}
	return e
}
