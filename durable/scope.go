package durable

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Scope is for executors: a stretch of user code whose durable calls are told apart by their names: a workflow's body, one
// attempt of a task, or a branch of one of them. It is safe for concurrent use.
type Scope struct {
	x    *Execution
	path string
	body bool // of a workflow, which alone can continue as new
	// exited is true of a body that has ended its goroutine.
	exited bool
	// guests are those of a workflow's body; nil of any other scope.
	guests  *guests
	handler bool // of an update, in which nothing waits
	task    bool // of a task, which may have several attempts; so has what lies in it
	// parent is the scope that a branch is part of.
	parent *Scope
	// alive says why the code of the scope has no more to say; nil while it has.
	alive func() error
	// base is the context the scope's code was given; nil if it is not known.
	base context.Context //nolint:containedctx // to tell its end from that of one derived from it

	mu   sync.Mutex
	uses map[string]int // of each name, so far
	// flying is the call under way: calls have an order. Branches are those of each name, which have none among them.
	flying   *call
	branches map[string]*branches
	// failed is true if what the scope has recorded last is a failure, which nothing behind it says is handled.
	failed bool
	// unsettled are branches that have returned with such failures.
	unsettled []*Scope
	// stopped is what every further call returns, and what the code should have returned with: a suspension, a fault of
	// the journal, the end of the run. Closed is why the scope has ended.
	stopped, closed error
	// paused is the suspension of a branch, which stops the calls of the scope, but no other branches: these may be
	// goroutines that only begin.
	paused *SuspendedError
	record []*entry
	next   int             // the first entry that was not met again
	gates  map[string]bool // which way version gates went
	// patience is for how long replayed calls may still wait for the end of their contexts.
	patience *patience
}

// branches counts those of one name.
type branches struct {
	begun int
	open  bool // one is under way
}

// entry is what a scope's record says of one call.
type entry struct {
	callKey

	kind   callKind
	events []journal.Event // until it is met
	met    bool
	// stray is true if the call stands behind a failure that was reopened: the code may come to it, or go another way.
	stray bool
	// doubtful is true of a failure that perhaps nobody has handled.
	doubtful bool
}

// callKind says what a durable call does. It is told from the kind of its first event.
type callKind string

const (
	stepCall     callKind = "Step"
	onceCall     callKind = "Once"
	sleepCall    callKind = "Sleep"
	signalCall   callKind = "WaitForSignal"
	questionCall callKind = "Interrupt"
	childCall    callKind = "RunChild"
	gateCall     callKind = "Gate"
	awaitCall    callKind = "Await"
)

// waits reports whether a call of this kind can suspend its run, or take a while without doing anything.
func (k callKind) waits() bool {
	switch k {
	case sleepCall, signalCall, questionCall, childCall, awaitCall:
		return true
	}
	return false
}

func kindOf(first journal.Event) callKind {
	if isAwait(first) {
		return awaitCall
	}
	switch first.Kind {
	case journal.StepError:
		var m cutMeta
		if readMeta(first, &m) == nil && m.Once {
			return onceCall
		}
		return stepCall
	case journal.StepDone:
		return stepCall
	case journal.StepIntent:
		return onceCall
	case journal.TimerSet:
		return sleepCall
	case journal.SignalWait, journal.SignalReceived, journal.SignalTimeout:
		return signalCall
	case journal.QuestionAsked, journal.QuestionAnswered:
		return questionCall
	case journal.ChildStart:
		return childCall
	case journal.GateSet:
		return gateCall
	}
	return ""
}

// newBody is the scope of a workflow's body.
func (x *Execution) newBody() *Scope {
	s := x.scope("", false)
	s.body, s.guests = true, x.newGuests()
	x.body = s
	return s
}

// Task is for executors: the scope of one attempt of a task. Each attempt has one of its own and meets what the attempts
// before it have recorded; see Reopen. Alive is asked before each durable call, and before it writes: the error says that
// the attempt has returned or was abandoned. Nil: it never ends.
func (x *Execution) Task(path string, alive func() error) *Scope {
	s := x.scope(path, true)
	if alive != nil {
		s.alive = alive
	}
	return s
}

func (x *Execution) scope(path string, task bool) *Scope {
	s := &Scope{
		x: x, path: path, task: task, uses: map[string]int{}, branches: map[string]*branches{},
		alive: func() error { return nil }, patience: &patience{left: endPatience},
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	at := map[callKey]*entry{}
	events := handled(x.record.scopes[path])
	doubt, doubtful := doubtfulIn(events)
	for _, e := range events {
		if e.Name == "" || e.Kind == journal.UpdateDone || e.Kind == journal.UpdateError {
			continue // about the scope itself
		}
		k := callKey{e.Name, e.N}
		if at[k] == nil {
			at[k] = &entry{callKey: k, kind: kindOf(e), stray: x.record.strays[place{path, k}]}
			s.record = append(s.record, at[k])
		}
		at[k].events = append(at[k].events, e)
	}
	if doubtful {
		at[doubt].doubtful = at[doubt].kind != onceCall // whose failure is final
	}
	if !task {
		delete(x.record.scopes, path) // nobody comes here again
	}
	return s
}

// branch is the scope of a branch.
func (s *Scope) branch(path string) *Scope {
	child := s.x.scope(path, s.task)
	child.parent, child.base, child.patience, child.handler = s, s.base, s.patience, s.handler
	child.alive = func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.over()
	}
	return child
}

// Context returns a context whose durable calls belong to the scope.
func (s *Scope) Context(ctx context.Context) context.Context {
	s.base = ctx
	return context.WithValue(ctx, Key{}, s)
}

// Within is for executors that answer Key themselves: it tells the context that the scope's code is given. Call it before
// the code.
func (s *Scope) Within(ctx context.Context) { s.base = ctx }

// Close ends the scope: every further call in it returns err.
func (s *Scope) Close(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = err
	}
}

// suspension returns the suspension that the scope's code met, whatever it has returned; nil if there was none.
func (s *Scope) suspension() *SuspendedError {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := s.why().(*SuspendedError) //nolint:errorlint // just what stop has set
	return e
}

// Key is for executors: the context key under which the Scope of running code is found. An executor either calls
// Scope.Context or answers this key, with a *Scope, from a context type of its own.
type Key struct{}

// scopeOf returns the scope of a context, or the step that it is inside of; nil if there is none.
func scopeOf(ctx context.Context) (*Scope, *inStep) {
	switch v := ctx.Value(Key{}).(type) {
	case *Scope:
		return v, nil
	case *inStep:
		return nil, v
	}
	return nil, nil
}

// call is one durable call under way.
type call struct {
	s     *Scope
	name  string
	n     int
	begun time.Time
	// recorded are the call's events; none if it was not met before. Doubtful is true if they are a failure that perhaps
	// nobody has handled.
	recorded []journal.Event
	doubtful bool
}

// enter begins a call, or says why it may not begin. Exit it.
func (s *Scope) enter(ctx context.Context, kind callKind, name string) (*call, error) {
	if name == "" {
		return nil, &OptionError{Call: string(kind), Name: name, Err: errNoName}
	}
	if s.handler && kind.waits() {
		return nil, &PlacementError{Call: string(kind), Why: fmt.Sprintf(
			"it is called in the handler of an update (scope %q), which cannot wait: call it in the workflow's body", s.path)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ended(); err != nil {
		return nil, err
	}
	if s.flying != nil {
		s.stopped = &OverlapError{RunID: s.x.id, Scope: s.path, Name: name, Other: s.flying.name}
		return nil, s.stopped
	}
	if err := s.rests(); err != nil {
		return nil, err
	}
	c := &call{s: s, name: name, n: s.uses[name] + 1, begun: time.Now()}
	e, err := s.meet(kind, callKey{name, c.n})
	if err != nil {
		s.stopped = err
		return nil, err
	}
	if e == nil {
		if err := s.mayBegin(ctx); err != nil {
			return nil, err
		}
		s.settleBranches(handledMeta{})
	}
	if s.guests != nil {
		if err := s.welcome(c, e); err != nil {
			return nil, err
		}
	}
	if e != nil {
		c.recorded, c.doubtful = e.events, e.doubtful
		e.met, e.events = true, nil
	}
	s.uses[name]++
	s.flying = c
	return c, nil
}

// ended says why the scope takes no more calls; nil if it does. The caller holds mu.
func (s *Scope) ended() error {
	if err := s.over(); err != nil {
		return err
	}
	return s.why()
}

// why is what has stopped the scope. The caller holds mu.
func (s *Scope) why() error {
	if s.stopped == nil && s.paused != nil {
		return s.paused
	}
	return s.stopped
}

// over says why the code of the scope has no more to say. The caller holds mu.
func (s *Scope) over() error {
	if s.closed != nil {
		return s.closed
	}
	return s.alive()
}

// Outcome is for executors: what counts of what the scope's code has returned. Code that a suspension or a fault of its
// journal has stopped has no say in it.
func (s *Scope) Outcome(returned error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.why(); err != nil {
		return err
	}
	return returned
}

// mayBegin says why a call that is not recorded may not begin. The caller holds mu.
func (s *Scope) mayBegin(ctx context.Context) error {
	if err := s.x.Broken(); err != nil {
		return err
	}
	switch {
	case s.x.ctx.Err() != nil:
		s.stopped = s.x.end()
		return s.stopped
	case s.base != nil && s.base.Err() != nil:
		s.stopped = s.base.Err()
		return s.stopped
	case !s.task && s.x.settings.assigned.stops(s.x):
		s.stopped = &RunStoppedError{RunID: s.x.id, Cause: errDrained, kind: context.Canceled}
		return s.stopped
	case s.base == nil:
		return ctx.Err()
	}
	return nil // should ctx have ended, then by the code's own doing, and that is for the call to record
}

// errDrained is the cause of a stop that the worker wants.
var errDrained = errors.New("its worker ends")

// endedAlone reports whether a context has ended and the run has not: it is one that the scope's code has made.
func (s *Scope) endedAlone(ctx context.Context) bool {
	return ctx.Err() != nil && s.base != nil && s.base.Err() == nil && s.x.ctx.Err() == nil
}

// meet finds what is recorded of a call; nil if it was not met before. The caller holds mu.
func (s *Scope) meet(kind callKind, at callKey) (*entry, error) {
	e := s.stray(at)
	if e == nil {
		e = s.unmet()
	}
	switch {
	case e == nil:
		return nil, nil //nolint:nilnil // there is none
	case e.callKey != at || e.kind != kind:
		return nil, s.differs(e, describeCall(kind, at))
	}
	return e, nil
}

// stray finds a call that is met whenever the code comes to it. The caller holds mu.
func (s *Scope) stray(at callKey) *entry {
	for _, e := range s.record {
		if e.stray && !e.met && e.callKey == at {
			return e
		}
	}
	return nil
}

// unmet is the first recorded call that is to be met next; nil if there is none. The caller holds mu.
func (s *Scope) unmet() *entry {
	for ; s.next < len(s.record); s.next++ {
		if e := s.record[s.next]; !e.met && !e.stray {
			return e
		}
	}
	return nil
}

// left returns an error if the code has ended where its record goes on.
func (s *Scope) left() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.unmet(); e != nil {
		return s.differs(e, "its end")
	}
	if s.guests != nil {
		for _, updates := range s.guests.recorded {
			return updates[0].differs(s.x.id, "its end")
		}
	}
	return nil
}

func (s *Scope) differs(e *entry, met string) error {
	return &NonDeterminismError{
		RunID: s.x.id, Scope: s.path, Seq: e.events[0].Seq, Recorded: describeCall(e.kind, e.callKey), Met: met,
	}
}

func describeCall(kind callKind, at callKey) string {
	if at.n == 1 {
		return fmt.Sprintf("%s(%q)", kind, at.name)
	}
	return fmt.Sprintf("%s(%q), number %d of that name", kind, at.name, at.n)
}

// exit ends the call.
func (c *call) exit() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.flying = nil
}

// write records events of the call.
func (c *call) write(ctx context.Context, events ...journal.Event) error {
	s := c.s
	s.mu.Lock()
	err := s.over() // one that was stopped only makes no further calls
	s.mu.Unlock()
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		e.Scope, e.Name, e.N, e.Time = s.path, c.name, c.n, Now()
	}
	if err := s.x.Append(ctx, events...); err != nil {
		return err
	}
	s.mu.Lock()
	s.failed = events[len(events)-1].Kind == journal.StepError
	s.mu.Unlock()
	s.remember(events...)
	return nil
}

// remember adds what was written to what a later attempt of the same task meets. The code of a workflow has one attempt.
func (s *Scope) remember(events ...journal.Event) {
	if !s.task {
		return
	}
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	s.x.record.scopes[s.path] = append(s.x.record.scopes[s.path], events...)
}

// withMeta adds the fields of one object to another.
func withMeta(object []byte, more any) []byte {
	add := meta(more)
	if len(object) <= len("{}") {
		return add
	}
	return append(append(object[:len(object)-1:len(object)-1], ','), add[1:]...)
}

// suspend stops the scope: the code is to return, and every further call in it fails at once.
func (s *Scope) suspend(w Wait) error {
	if s.guests != nil {
		if _, err := s.receive(s.flying, true); err != nil {
			return err
		}
	}
	return s.halt(w)
}

// halt is suspend where nobody is to be received any more.
func (s *Scope) halt(w Wait) error {
	e := &SuspendedError{RunID: s.x.id, Waits: []Wait{w}}
	s.x.wait(w)
	s.stop(e)
	return e
}

// stop keeps the scope from going on.
func (s *Scope) stop(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped == nil {
		s.stopped = err
	}
}

// settle records, along with the next append, that the code has gone on behind the failures that the scope ends with.
func (s *Scope) settle(m handledMeta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleAll(m)
}

// settleAll is settle under mu.
func (s *Scope) settleAll(m handledMeta) {
	s.settleBranches(m)
	if s.failed {
		s.failed = false
		e := journal.Event{Kind: journal.StepHandled, Scope: s.path, Time: Now()}
		if m.Perhaps {
			e.Meta = meta(m)
		}
		s.x.Hold(e)
		s.remember(e)
	}
}

// settleBranches does so for branches, which leave no trace of their own. The caller holds mu.
func (s *Scope) settleBranches(m handledMeta) {
	for _, branch := range s.unsettled {
		branch.settle(m)
	}
	s.unsettled = nil
}

// troubled reports whether the scope ends with failures that nobody has handled yet.
func (s *Scope) troubled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed || len(s.unsettled) > 0
}

// branchPath is the scope of the n-th branch of a name.
func (s *Scope) branchPath(name string, n int) string {
	if strings.ContainsAny(name, "/#%[]") {
		name = url.PathEscape(name)
	}
	path := fmt.Sprintf("%s#%d", name, n)
	if s.path == "" {
		return path
	}
	return s.path + "/" + path
}
