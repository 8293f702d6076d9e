package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// cli is the grammar of the command line.
type cli struct {
	Store text `help:"The journal: sqlite:PATH, just PATH, or postgres:DSN. Default: $PAWL_STORE, or else ./pawl.db." placeholder:"STORE"`

	Schema text `help:"The schema in a PostgreSQL database. Default: $PAWL_SCHEMA, or else pawl." placeholder:"NAME"`

	JSON bool `help:"Write JSON: one object, or one a line. Errors are JSON, too." name:"json"`

	Runs    runsCmd    `cmd:"" help:"Look at runs, and act on them."`
	Graph   graphCmd   `cmd:"" help:"Look at graphs."`
	Version versionCmd `cmd:"" help:"Say which version this is."`
}

// text is an argument or flag that is taken as it is. Of a plain string, kong would mend what is no UTF-8.
type text string

// Decode implements kong.MapperValue.
func (t *text) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	if err != nil {
		return err
	}
	*t = text(token.String())
	return nil
}

type runsCmd struct {
	List      listCmd      `cmd:"" help:"List runs, the newest first."`
	Show      showCmd      `cmd:"" help:"Show one run: its record, its timeline, and the questions it asks."`
	Events    eventsCmd    `cmd:"" help:"Print the events of a run, one a line, and follow it."`
	Start     startCmd     `cmd:"" help:"Start a run of a workflow, for a worker to take."`
	StartLike startLikeCmd `cmd:"" help:"Start a run of the same workflow or graph as another run."`
	Result    resultCmd    `cmd:"" help:"Wait until a run has ended, and print its result."`
	Retry     retryCmd     `cmd:"" help:"Prepare a new run that goes on where a failed one failed."`
	Cancel    cancelCmd    `cmd:"" help:"End a run for good."`
	Questions questionsCmd `cmd:"" help:"Print the questions that a run has asked."`
	Answer    answerCmd    `cmd:"" help:"Answer a question that a run has asked."`
	Signal    signalCmd    `cmd:"" help:"Send a value to a run that waits for it, or is going to."`
	Update    updateCmd    `cmd:"" help:"Ask a run to change, and print what its workflow says."`
	Query     queryCmd     `cmd:"" help:"Ask a run something, and print what its workflow says."`
	Pause     pauseCmd     `cmd:"" help:"Have a run rest until it is resumed."`
	Resume    resumeCmd    `cmd:"" help:"Let a run go on that was paused."`
}

type graphCmd struct {
	Draw drawCmd `cmd:"" help:"Print the drawing of the graph that a run has recorded."`
}

const description = `pawl looks at the runs of a journal, and acts on them from outside.

It runs nothing itself: what it starts, prepares, answers or cancels takes effect
where a worker or your program runs the run, now or when it is run again.

The store is a SQLite file or a schema in a PostgreSQL database. It may be in use
by other processes meanwhile; one that does not exist is an error, and is not
created. A DSN with a password belongs into $PAWL_STORE, where other users of the
machine do not see it, or leave the password to $PGPASSWORD or ~/.pgpass.

Times are in UTC. Ids and texts with characters that a terminal would act on are
printed in Go's quotes.

Exit codes:
  0  done
  1  failed in a way that is none of these
  2  the command line is wrong
  3  there is no such run, question, update or query
  4  refused: answered already, ended, held by another owner, of the wrong type, or
     an update that the run has rejected
  5  the store cannot be used: missing, locked, full, unreadable, or no journal
  6  the run has failed or was cancelled, or its update or query has failed
  7  not in time: the run has not ended, or has not taken the update or query`

// session is what a command works with.
type session struct {
	store string // as it was given
	given bool   // by --store, not by the environment
	// schema is that of a store in PostgreSQL; empty for the default one.
	schema      string
	schemaGiven bool // by --schema
	json        bool
	in          io.Reader
	out         *output
	notes       *output // standard error
	now         time.Time
}

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	s := &session{in: in, out: newOutput(stdout), notes: newOutput(stderr), now: time.Now().UTC()}
	s.json = asksForJSON(args) // also for an error of the command line itself
	err := s.run(ctx, args, getenv)
	err = errors.Join(err, s.out.flush())
	s.report(err)
	if s.notes.flush() != nil {
		return exitFailed
	}
	return exitCode(err)
}

func (s *session) run(ctx context.Context, args []string, getenv func(string) string) error {
	var c cli
	helped := false
	parser, err := kong.New(&c, kong.Name("pawl"), kong.Description(description), kong.Writers(s.out, s.notes),
		kong.Exit(func(int) { helped = true }), kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(s),
		kong.Vars{"statuses": statusList()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoAppDescFormat: true}))
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return nil
	case err != nil:
		return usageError(err, args)
	}
	s.json = c.JSON
	s.store, s.given = string(c.Store), c.Store != ""
	if !s.given {
		s.store = getenv("PAWL_STORE")
	}
	s.schema, s.schemaGiven = string(c.Schema), c.Schema != ""
	if _, ok := postgresDSN(s.store); ok && !s.schemaGiven {
		s.schema = getenv("PAWL_SCHEMA")
	}
	return parsed.Run()
}

func usageError(err error, args []string) error {
	text := err.Error()
	if strings.HasPrefix(text, "unknown flag -") {
		text += ": put -- before values and ids that begin with a dash, behind all flags"
	}
	return &exitError{code: exitUsage, text: text + ": see " + helpFor(args)}
}

// helpFor is the command that helps with args.
func helpFor(args []string) string {
	words := []string{"pawl"}
	for _, a := range args {
		if commands[strings.Join(append(words[1:len(words):len(words)], a), " ")] {
			words = append(words, a)
		}
	}
	return fmt.Sprintf("%q", strings.Join(append(words, "--help"), " "))
}

// commands are those that have a help of their own.
var commands = map[string]bool{ //nolint:gochecknoglobals // a constant table
	"runs": true, "runs list": true, "runs show": true, "runs events": true, "runs start": true, "runs start-like": true,
	"runs result": true, "runs retry": true, "runs cancel": true, "runs questions": true, "runs answer": true, "runs signal": true,
	"runs update": true, "runs query": true, "runs pause": true, "runs resume": true,
	"graph": true, "graph draw": true, "version": true,
}

func asksForJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json":
			return true
		}
	}
	return false
}
