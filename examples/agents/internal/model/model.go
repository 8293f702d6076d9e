// Package model gives the examples a model to talk to: a scripted one that needs no key, or a real one.
package model

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/pawl-go/pawl/providers/openai"
	"github.com/pawl-go/pawl/providers/scripted"
)

// Open returns a client under the given name, and a function that closes what belongs to it. The client is the same in
// both cases, and so is the wire; only the endpoint differs: with live it is the one that the environment names, otherwise
// it plays the script, on loopback.
func Open(name string, live bool, script *scripted.Script) (*openai.Client, func(), error) {
	if live {
		return openLive(name)
	}
	return openScripted(name, script)
}

// openLive reads OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL.
func openLive(name string) (*openai.Client, func(), error) {
	var missing []error
	env := func(variable, meaning string) string {
		value := os.Getenv(variable)
		if value == "" {
			missing = append(missing, fmt.Errorf("-live: %s is not set: set it to %s", variable, meaning))
		}
		return value
	}
	cfg := openai.Config{
		Name:    name,
		BaseURL: env("OPENAI_BASE_URL", "the endpoint, such as https://api.openai.com/v1 or http://localhost:11434/v1"),
		APIKey:  env("OPENAI_API_KEY", "your key, or to any word for an endpoint that wants none"),
		Model:   env("OPENAI_MODEL", "the name of a model that the endpoint serves"),
	}
	if err := errors.Join(missing...); err != nil {
		return nil, nil, err
	}
	c, err := openai.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	return c, c.CloseIdleConnections, nil
}

// openScripted serves the script on a free port of this machine.
func openScripted(name string, script *scripted.Script) (*openai.Client, func(), error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not block
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: script.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(listener) //nolint:errcheck // it returns when the server is closed
	}()
	c, err := openai.New(openai.Config{Name: name, BaseURL: "http://" + listener.Addr().String() + "/v1", Model: "scripted"})
	if err != nil {
		return nil, nil, errors.Join(err, server.Close())
	}
	return c, func() {
		c.CloseIdleConnections()
		server.Close() //nolint:errcheck // nothing is left to lose
		<-done
	}, nil
}
