package openai

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-go/pawl/providers"
)

const (
	defaultName    = "openai"
	defaultBaseURL = "https://api.openai.com/v1"
	defaultHeader  = "Idempotency-Key"
	defaultLimit   = 128 << 20
	noHeader       = "-"
)

// Config says which endpoint to call and how. The zero Config calls OpenAI without a key.
type Config struct {
	// Name stands in answers, events and errors. Default: "openai".
	Name string
	// BaseURL is what "/chat/completions" is appended to. Default: "https://api.openai.com/v1".
	BaseURL string
	// APIKey is sent as a bearer token; empty: no Authorization header. No error, log or event shows it.
	APIKey string
	// HTTPClient makes the requests, with its own transport and timeouts. A client without a CheckRedirect follows no
	// redirects here. Default: a client of its own without a timeout, which keeps up to 100 idle connections.
	HTTPClient *http.Client
	// Header is added to each request: {"Api-Key": {key}} for Azure, {"X-Title": {"my app"}} for OpenRouter.
	Header http.Header
	// Model is asked for where a request names none.
	Model string
	// IdempotencyHeader carries a key that is the same in every attempt of a task for the same request; outside of a run
	// it is not sent. Default: "Idempotency-Key"; "-" sends none.
	IdempotencyHeader string
	// NoStreamUsage leaves out stream_options.include_usage, for endpoints that refuse it. Streams then report no tokens.
	NoStreamUsage bool
	// ShowServerMessages puts what a server wrote into errors. It helps when looking for a mistake, but it may quote the
	// prompt; the APIKey and the values of Header are cut out.
	ShowServerMessages bool
	// MaxResponseBytes bounds what is read of one answer, plain or streamed. Default: 128 MiB. A longer one is an error of
	// class invalid_response.
	MaxResponseBytes int64
}

// Validate reports every bad field at once, in a *providers.ConfigError. New calls it.
func (c Config) Validate() error {
	v := &providers.ConfigError{Config: "openai.Config"}
	if c.Name != "" && strings.TrimSpace(c.Name) == "" {
		v.Add("Name", fmt.Sprintf("%q", c.Name), "give it a name, or leave it empty for \"openai\"")
	}
	c.validateURL(v)
	if !validValue(c.APIKey) || strings.TrimSpace(c.APIKey) != c.APIKey {
		v.Add("APIKey", "not shown", "remove line breaks, control characters and blanks around it")
	}
	c.validateHeaders(v)
	if c.MaxResponseBytes < 0 {
		v.Add("MaxResponseBytes", strconv.FormatInt(c.MaxResponseBytes, 10), "use a positive number of bytes, or 0 for 128 MiB")
	}
	return v.OrNil()
}

// String names the endpoint. With it, fmt and slog print neither the key nor the headers.
func (c Config) String() string { return fmt.Sprintf("openai config %q at %q", c.Name, c.BaseURL) }

// GoString is String, for %#v.
func (c Config) GoString() string { return c.String() }

func (c Config) validateURL(v *providers.ConfigError) {
	if c.BaseURL == "" {
		return
	}
	const remedy = "use http(s)://host/path without user, query or fragment; keys go into APIKey or Header"
	u, err := url.Parse(c.BaseURL)
	switch {
	case err != nil: // the text of err quotes the URL, which may hold a key
		v.Add("BaseURL", "no URL", remedy)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		v.Add("BaseURL", fmt.Sprintf("%q (the rest is not shown)", u.Scheme+"://"+u.Host), remedy)
	}
}

func (c Config) validateHeaders(v *providers.ConfigError) {
	for name, values := range c.Header {
		if !validName(name) {
			v.Add("Header", fmt.Sprintf("%q", name), "use a valid header name")
		}
		for _, value := range values {
			if !validValue(value) {
				v.Add("Header["+name+"]", "not shown", "remove line breaks and control characters")
			}
		}
	}
	if c.IdempotencyHeader != "" && !validName(c.IdempotencyHeader) {
		v.Add("IdempotencyHeader", fmt.Sprintf("%q", c.IdempotencyHeader), "use a valid header name, or \"-\" to send none")
	}
}

// validName reports whether a header may have the name (RFC 9110, 5.6.2).
func validName(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)) {
			return false
		}
	}
	return s != ""
}

// validValue reports whether a header may have the value. Package net/http would refuse it too, but quotes it.
func validValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r == 0x7f) })
}

// secrets are the texts that a server may quote and no error may show. A very short header is no secret, and cutting it
// out would only garble messages.
func (c Config) secrets() []string {
	const shortest = 8
	var out []string
	if c.APIKey != "" {
		out = append(out, c.APIKey)
	}
	for _, values := range c.Header {
		for _, v := range values {
			if len(v) >= shortest {
				out = append(out, v)
			}
		}
	}
	return out
}

// withDefaults fills in what was left empty.
func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.BaseURL == "" {
		c.BaseURL = defaultBaseURL
	}
	switch c.IdempotencyHeader {
	case "":
		c.IdempotencyHeader = defaultHeader
	case noHeader:
		c.IdempotencyHeader = ""
	}
	if c.MaxResponseBytes == 0 {
		c.MaxResponseBytes = defaultLimit
	}
	c.Header = c.Header.Clone()
	c.HTTPClient = c.client()
	return c
}

// client returns a copy of the user's client that follows no redirect unless the user has said how.
func (c Config) client() *http.Client {
	var own http.Client
	if c.HTTPClient != nil {
		own = *c.HTTPClient
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = 100 // one host, many runs: the default of 2 would close most connections after each call
		own.Transport = t
	}
	if own.CheckRedirect == nil {
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return &own
}
