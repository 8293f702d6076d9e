// Command pawl looks at the runs of a journal, and acts on them from outside: it lists and shows them, answers their
// questions, cancels them, and prepares the retry of one that has failed. It never runs a graph or a workflow itself: that
// is for the program that has their code.
//
//	go install github.com/pawl-go/pawl/cmd/pawl@latest
//	pawl runs list --status failed,suspended
//	pawl runs show tides-42
//	pawl runs answer tides-42 - true
//
// "pawl --help" says which store it takes, and what the exit codes mean.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	stop()
	os.Exit(code)
}
