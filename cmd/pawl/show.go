package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/journal"
)

type showCmd struct {
	ID text `arg:"" help:"The run."`
}

// Help implements kong.HelpProvider.
func (c *showCmd) Help() string {
	return "The timeline shows when each thing began, counted from when the run was made. It shows the texts of errors and " +
		"questions, but no inputs, results or answers: \"runs events --payloads\" prints those."
}

// shown is a run as JSON.
type shown struct {
	Run journal.Run `json:"run"`
	// Linked are runs that come from this one, the newest first, at most 100.
	Linked []journal.Run `json:"linked"`
	// Left are the tasks of SuperStep, planned and without an outcome, of a run that has not completed.
	SuperStep int      `json:"super_step,omitempty"`
	Left      []string `json:"left,omitempty"`
	// Requeues is how often an attempt was given up, by reason.
	Requeues  map[string]int `json:"requeues,omitempty"`
	Timeline  []*item        `json:"timeline"`
	Questions []*question    `json:"questions"`
	// Messages are those that the run has not taken.
	Messages []message `json:"messages"`

	outlook outlook
	encoded bool
	waited  map[string]bool
}

// message is something that was sent to a run, without its value.
type message struct {
	Seq  int64               `json:"seq"`
	Kind journal.MessageKind `json:"kind"`
	Name string              `json:"name,omitempty"`
	Key  string              `json:"key,omitempty"`
	Time time.Time           `json:"time"`
}

// Run shows a run.
func (c *showCmd) Run(ctx context.Context, s *session) error {
	id := string(c.ID)
	return s.withStore(ctx, func(db store) error {
		v, err := look(ctx, db, id)
		if err != nil {
			return s.explained(err)
		}
		if s.json {
			s.out.json(v)
			return nil
		}
		s.header(v)
		s.out.printf("\n")
		s.timeline(v.Timeline, v.Run.Created)
		s.goOn(v)
		return nil
	})
}

// look reads all that is shown of a run.
func look(ctx context.Context, db store, id string) (*shown, error) {
	run, err := db.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	linked, err := db.List(ctx, journal.Query{LinkedTo: id})
	if err != nil {
		return nil, err
	}
	t := newTimeline()
	for e, err := range db.Events(ctx, id, 0) {
		if err != nil {
			return nil, err
		}
		t.add(e)
	}
	inbox, err := db.Inbox(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	if err := t.lookForAnswers(ctx, db, id, inbox); err != nil {
		return nil, err
	}
	t.outlook.inbox, t.outlook.pause = t.taken.left(inbox), pauseIn(inbox)
	v := &shown{
		Run: run, Linked: append([]journal.Run{}, linked.Runs...),
		Requeues: t.requeues, Timeline: t.top, Questions: append([]*question{}, t.questions...),
		Messages: []message{}, outlook: t.outlook, encoded: t.encoded, waited: t.waited,
	}
	for _, m := range t.outlook.inbox {
		v.Messages = append(v.Messages, message{Seq: m.Seq, Kind: m.Kind, Name: m.Name, Key: m.Key, Time: m.Time})
	}
	switch run.Status {
	case journal.Completed, journal.Cancelled, journal.Continued:
	default:
		v.SuperStep, v.Left = t.left()
	}
	return v, nil
}

// lookForAnswers finds the questions whose answers were sent and not taken yet.
func (t *timeline) lookForAnswers(ctx context.Context, db store, id string, inbox []journal.Message) error {
	answered := map[string]bool{}
	for _, m := range inbox {
		answered[m.Name] = answered[m.Name] || m.Kind == journal.AnswerMessage
	}
	if !t.encoded && len(answered) > 0 { // else nobody can tell whether an answer fits
		questions, err := durable.Questions(ctx, db, id)
		if err != nil && !errors.As(err, new(*durable.ReplayError)) {
			return err
		}
		for _, q := range questions {
			answered[q.ID] = q.Answered
		}
	}
	for _, q := range t.questions {
		if q.State == open && answered[q.ID] {
			q.State = sent
		}
	}
	return nil
}

// header prints the record.
func (s *session) header(v *shown) {
	r := &v.Run
	t := s.out.table()
	row := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	row("run", printable(r.ID))
	what := fmt.Sprintf("%s %s", printable(string(r.Kind)), printable(r.Name))
	if r.Version != "" {
		what += ", version " + printable(r.Version)
	}
	row("of", what)
	row("status", s.statusText(r, &v.outlook))
	row("created", fmt.Sprintf("%s (%s)", clock(r.Created), s.ago(r.Created)))
	if r.Thread != "" {
		row("thread", printable(r.Thread))
	}
	if r.Queue != "" {
		row("queue", printable(r.Queue))
	}
	if r.Dedup != "" {
		row("dedup key", printable(r.Dedup))
	}
	if r.Link.Kind != "" {
		row("from", linkText(r.Link))
	}
	if r.Owner != "" {
		row("owner", s.leaseText(r))
	}
	row("events", strconv.FormatInt(r.Head, 10))
	row("given up", requeueText(v.Requeues))
	if len(v.Left) > 0 {
		row("to do", fmt.Sprintf("%s, in super-step %d", few(v.Left), v.SuperStep))
	}
	for i := range v.Linked {
		l := &v.Linked[i]
		row(linkNames[l.Link.Kind], fmt.Sprintf("%s (%s)", printable(l.ID), l.Status))
	}
	t.end()
}

// requeueText says how often attempts were given up, and why.
func requeueText(requeues map[string]int) string {
	parts := make([]string, 0, len(requeues))
	for _, reason := range slices.Sorted(maps.Keys(requeues)) {
		name := "unknown"
		if reason != "" {
			name = printable(reason)
		}
		parts = append(parts, fmt.Sprintf("%s x%d", name, requeues[reason]))
	}
	return strings.Join(parts, ", ")
}

// linkNames say what a run that comes from another one is to that.
var linkNames = map[journal.LinkKind]string{ //nolint:gochecknoglobals // a constant table
	journal.RetryOf: "retried as", journal.ForkOf: "forked as", journal.TurnAfter: "next turn", journal.ChildOf: "child",
	journal.Continuation: "continued as",
}

func (s *session) statusText(r *journal.Run, o *outlook) string {
	text := fmt.Sprintf("%s, since %s (%s)", printable(string(r.Status)), clock(r.Updated), s.ago(r.Updated))
	if note := s.outlook(r, o); note != "" {
		text += ": " + note
	}
	return text
}

// few are names, of which there may be many.
func few(names []string) string {
	const most = 10
	if len(names) <= most {
		return list(names)
	}
	return fmt.Sprintf("%s and %d more", list(names[:most]), len(names)-most)
}

// goOn prints what can be done to let the run go on.
func (s *session) goOn(v *shown) {
	r := &v.Run
	if r.Status == journal.Failed {
		s.retried(v)
	}
	if !r.Status.Terminal() {
		s.paused(v)
		s.questions(v)
		s.signals(v)
	}
	s.messages(v)
}

// retried prints how to go on with a failed run, or what has become of its last retry.
func (s *session) retried(v *shown) {
	for i := range v.Linked { // the newest first
		l := &v.Linked[i]
		switch {
		case l.Link.Kind != journal.RetryOf:
			continue
		case l.Status == journal.Completed:
			s.out.printf("\nRetried as %s, which has completed\n", printable(l.ID))
		case l.Status.Terminal():
			s.out.printf("\nRetried as %s, which is %s: %s\n", printable(l.ID), l.Status, s.command("runs show", l.ID))
		default:
			s.out.printf("\nRetried as %s, which is %s; %s\n", printable(l.ID), l.Status, whoGoesOn(l))
		}
		return
	}
	s.out.printf("\nGo on where it failed: %s\n", s.command("runs retry", v.Run.ID))
}

// paused prints how to end a pause.
func (s *session) paused(v *shown) {
	if p := v.outlook.pause; p != nil {
		s.out.printf("\npaused %s; let it go on: %s\n", s.ago(p.since), s.command("runs resume", v.Run.ID))
	}
}

// questions prints the questions that can be answered.
func (s *session) questions(v *shown) {
	r := &v.Run
	for _, q := range v.Questions {
		switch q.State {
		case open:
			s.out.printf("\nopen question %s\n", printable(q.ID))
		case sent:
			s.out.printf("\nquestion %s %s\n", printable(q.ID), questionState(q, r))
			continue
		default:
			continue
		}
		if q.Encoded {
			s.out.printf("    %s: answer it from a program that has the codec\n", encoded)
			continue
		}
		for _, line := range textLines(asText(q.Question)) {
			s.out.printf("    %s\n", line)
		}
		s.out.printf("    Answer it with %s: %s %s\n", q.Wants, s.command("runs answer", r.ID, q.ID), "VALUE")
	}
}

// signals prints the signals that the run waits for.
func (s *session) signals(v *shown) {
	arrived := v.outlook.arrived()
	for _, w := range v.outlook.waits {
		if w.Signal == "" {
			continue
		}
		if m := arrived(w); m != nil {
			s.out.printf("\nsignal %s was sent %s, and the run takes it %s\n", printable(w.Signal), s.ago(m.Time), takenWhen(&v.Run))
			continue
		}
		s.out.printf("\nwaits for %s\n", waitText(w))
		if v.encoded {
			s.out.printf("    %s: send it from a program that has the codec\n", encoded)
			continue
		}
		s.out.printf("    Send it: %s VALUE\n", s.command("runs signal", v.Run.ID, w.Signal))
	}
}

// messages prints those that nobody has taken, and that the run is not suspended for.
func (s *session) messages(v *shown) {
	known := map[string]bool{}
	for _, q := range v.Questions {
		known[q.ID] = true
	}
	const most = 10
	strays := v.strays()
	for i, m := range strays {
		if i == most {
			s.out.printf("\nand %s\n", count(len(strays)-most, "more message"))
			return
		}
		name := printable(m.Name)
		switch {
		case m.Kind == journal.SignalMessage && !v.waited[m.Name]:
			s.out.printf("\nsignal %s, sent %s: nobody has waited for it\n", name, s.ago(m.Time))
		case m.Kind == journal.SignalMessage:
			s.out.printf("\nsignal %s, sent %s: nobody has taken it\n", name, s.ago(m.Time))
		case m.Kind == journal.UpdateMessage || m.Kind == journal.QueryMessage:
			s.out.printf("\n%s %s, sent %s: the run has not come to it\n", m.Kind, name, s.ago(m.Time))
		case m.Kind == journal.CancelMessage && !v.Run.Status.Terminal():
			s.out.printf("\ncancel, sent %s: the run's owner has not cancelled it yet\n", s.ago(m.Time))
		case m.Kind == journal.AnswerMessage && !known[m.Name]:
			s.out.printf("\nanswer to %s, sent %s: the run has asked no such question\n", name, s.ago(m.Time))
		}
	}
}

// strays are the messages that no wait of the run is for.
func (v *shown) strays() []journal.Message {
	arrived := v.outlook.arrived()
	used := map[int64]bool{}
	for _, w := range v.outlook.waits {
		if m := arrived(w); m != nil {
			used[m.Seq] = true
		}
	}
	var strays []journal.Message
	for _, m := range v.outlook.inbox {
		if !used[m.Seq] {
			strays = append(strays, m)
		}
	}
	return strays
}
