package superstep

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-go/pawl/durable"
	"github.com/pawl-go/pawl/graph"
	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/task"
)

// ledger is what a driver keeps of its graph in the run's journal: the outcome of each task when it is there, and at the
// barrier which tasks are next. The outcome of a super-step's last task waits for the barrier, and both are written at once.
type ledger[S, U any] struct {
	x       *durable.Execution
	d       *driver[S, U]
	options *runOptions // nil if there are none, and in subgraphs but for a migration
	salt    string      // of the hashes of items; empty where payloads are not encoded
	// left counts the tasks of the super-step without an outcome.
	left atomic.Int64
	// weight is the size of what was written since the last checkpoint, and checkpoint the size of that.
	weight     atomic.Int64
	checkpoint int64

	// resting are tasks that wait for something that has not come.
	resting map[int]*durable.SuspendedError

	mu   sync.Mutex
	held []journal.Event // the last task's outcome
}

// leastCheckpoint is what has to come together, in bytes, before a checkpoint is worth its place.
const leastCheckpoint = 32 << 10

// barrierMeta is the Meta of a SuperStepDone. Its payload, if there is one, is an update that a fork has edited in.
type barrierMeta struct {
	Next  []planned  `json:"next"`
	Usage task.Usage `json:"usage,omitzero"` // of the whole run so far
}

// outcomeMeta is the Meta of a task's StepDone.
type outcomeMeta struct {
	Usage task.Usage `json:"usage,omitzero"` // of the attempt that gave it
}

// gotoOutcome is the payload of a Goto's StepDone; that of any other node is its update.
type gotoOutcome struct {
	Update json.RawMessage `json:"update"`
	Next   []target        `json:"next,omitempty"`
}

// target is what a Goto has named: a node, with items if it is fanned out, or End, which has no name.
type target struct {
	Node  string          `json:"node,omitempty"`
	Items json.RawMessage `json:"items,omitempty"`
}

// scopeOf is the scope of the i-th task of the super-step.
func (d *driver[S, U]) scopeOf(i int) string {
	t := &d.m.Tasks()[i]
	name := d.prog.plan.Nodes[t.Node].Name
	out := make([]byte, 0, len(d.scope)+len(name)+16)
	out = strconv.AppendInt(append(out, d.scope...), int64(d.m.SuperStep()), 10)
	out = append(append(append(out, '/'), name...), '[')
	return string(append(strconv.AppendInt(out, int64(t.Index), 10), ']'))
}

// begin serves what is recorded of the super-step's tasks, and asks what is to be asked before it. A run that is paused goes no
// further; a subgraph is part of its super-step, which may finish.
func (l *ledger[S, U]) begin(ctx context.Context) error {
	if l.d.scope == "" {
		if rest := l.x.Rested(); rest != nil {
			return rest
		}
	}
	l.left.Store(int64(len(l.d.m.Tasks())))
	clear(l.resting)
	if l.asks() {
		if err := l.ask(ctx); err != nil {
			return err
		}
	}
	if !l.x.Replaying() {
		return nil
	}
	for i := range l.d.m.Tasks() {
		if served, err := l.serve(i); err != nil {
			return err
		} else if served {
			continue
		}
		if rest := l.x.Rest(l.d.scopeOf(i)); rest != nil {
			if l.resting == nil {
				l.resting = map[int]*durable.SuspendedError{}
			}
			l.resting[i] = rest
		}
	}
	return nil
}

// rest returns the suspension of a task that waits for something that has not come; nil if it has to run.
func (l *ledger[S, U]) rest(i int) *durable.SuspendedError {
	if l == nil {
		return nil
	}
	return l.resting[i]
}

// serve completes a task with its recorded outcome, if it has one.
func (l *ledger[S, U]) serve(i int) (bool, error) {
	scope := l.d.scopeOf(i)
	events := l.x.History(scope)
	if len(events) == 0 || events[len(events)-1].Kind != journal.StepDone || events[len(events)-1].Name != "" {
		return false, nil
	}
	e := events[len(events)-1]
	var m outcomeMeta
	if len(e.Meta) > 0 {
		if err := json.Unmarshal(e.Meta, &m); err != nil {
			return false, l.fault(e, err)
		}
	}
	u, next, err := l.decode(l.d.m.Tasks()[i].Node, e.Payload, l.migration())
	if err != nil {
		return false, l.fault(e, err)
	}
	if err := l.d.m.complete(i, &u, &next); err != nil {
		return false, l.fault(e, err)
	}
	l.left.Add(-1)
	l.weight.Add(int64(len(e.Payload)))
	l.d.run.mu.Lock()
	l.d.run.usage = l.d.run.usage.Plus(m.Usage)
	l.d.run.mu.Unlock()
	l.x.Forget(scope)
	return true, nil
}

func (l *ledger[S, U]) fault(e journal.Event, err error) error {
	return &durable.ReplayError{RunID: l.x.RunID(), Seq: e.Seq, Err: err}
}

// outcome records that a task has succeeded, and completes it with what replay would read.
func (l *ledger[S, U]) outcome(ctx context.Context, i int, c *call[S, U]) error {
	payload, err := l.encode(c)
	if err != nil {
		return c.failed(err)
	}
	u, next, err := l.decode(c.t.Node, payload, nil)
	if err != nil {
		return c.failed(notReadBack[U]("Update", err))
	}
	if err := l.d.m.complete(i, &u, &next); err != nil {
		return err
	}
	at := c.s.at()
	e := journal.Event{
		Kind: journal.StepDone, Scope: c.scope, Time: durable.Now(), Took: time.Since(c.begun), Attempts: at.attempt,
		Payload: payload,
	}
	if used := c.usage(); used != (task.Usage{}) {
		e.Meta = mustMarshal(outcomeMeta{Usage: used})
	}
	l.weight.Add(int64(len(payload)))
	l.x.Forget(e.Scope)
	if l.left.Add(-1) > 0 {
		return l.x.Append(ctx, e)
	}
	l.mu.Lock()
	l.held = append(l.held, e)
	l.mu.Unlock()
	return nil
}

// notReadBack is the error of a value that was written and cannot be read back, which is as good as not written. A panic and a
// codec's fault stay what they are.
func notReadBack[T any](what string, err error) error {
	if found[*task.PanicError](err) || found[*journal.CodecError](err) {
		return err
	}
	return &journal.NotSerializableError{
		Type: reflect.TypeFor[T]().String(), Path: what, Reason: "it cannot be read back: " + err.Error(), Err: err,
	}
}

func (l *ledger[S, U]) encode(c *call[S, U]) ([]byte, error) {
	if c.node.Kind != graph.KindGoto {
		return l.x.Encode("Update", &c.u)
	}
	var out gotoOutcome
	var err error
	if out.Update, err = journal.Marshal("Update", &c.u); err != nil {
		return nil, err
	}
	for i := range c.next.Len() {
		t := c.next.At(i)
		n, _ := l.d.prog.plan.Index(t)
		var to target
		if n >= 0 {
			to.Node = t.Name()
		}
		if t.Items != nil {
			if to.Items, err = journal.Marshal("Items", t.Items); err != nil {
				return nil, err
			}
		}
		out.Next = append(out.Next, to)
	}
	return l.x.Encode("Update", &out)
}

func (l *ledger[S, U]) decode(node int, payload []byte, by *Migration) (u U, next graph.Next, err error) {
	defer task.Recover("decoder of an update", &err)
	data, err := l.x.Plain(payload)
	if err != nil {
		return u, next, err
	}
	if l.d.prog.plan.Nodes[node].Kind != graph.KindGoto {
		u, err = l.update(data, by)
		return u, next, err
	}
	var out gotoOutcome
	if err := json.Unmarshal(data, &out); err != nil {
		return u, next, err
	}
	if u, err = l.update(out.Update, by); err != nil {
		return u, next, err
	}
	var targets []graph.Target
	for _, to := range out.Next {
		if by != nil && to.Node != "" {
			to.Node = by.rename(to.Node)
		}
		t, err := l.target(to)
		if err != nil {
			return u, next, err
		}
		targets = append(targets, t)
	}
	return u, graph.NextOf(targets...), nil
}

func (l *ledger[S, U]) update(data []byte, by *Migration) (U, error) {
	if by != nil && by.Update != nil && l.d.scope == "" {
		var err error
		if data, err = by.Update(data); err != nil {
			return *new(U), err
		}
	}
	return l.d.prog.plan.DecodeUpdate(data)
}

func (l *ledger[S, U]) migration() *Migration {
	if l.options == nil {
		return nil
	}
	return l.options.migration
}

func (l *ledger[S, U]) target(to target) (graph.Target, error) {
	plan := l.d.prog.plan
	if to.Node == "" {
		return plan.Target(-1, nil), nil
	}
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		if n.Name != to.Node {
			continue
		}
		if (n.DecodeItems == nil) != (to.Items == nil) {
			return graph.Target{}, fmt.Errorf("node %q is fanned out now and was not, or the reverse", to.Node)
		}
		if n.DecodeItems == nil {
			return plan.Target(i, nil), nil
		}
		items, err := n.DecodeItems(to.Items)
		return plan.Target(i, items), err
	}
	return graph.Target{}, fmt.Errorf("the graph has no node %q", to.Node)
}

// failure records that a task has failed for good, and whether a Catch handler takes over. It returns the error that replay
// would give.
func (l *ledger[S, U]) failure(ctx context.Context, c *call[S, U], err error, catch bool) (recorded, journaled error) {
	e, recorded := l.x.Error(err)
	e.Scope, e.Took, e.Attempts = c.scope, time.Since(c.begun), c.s.at().attempt
	events := []journal.Event{e}
	if catch {
		events = append(events, journal.Event{Kind: journal.CatchStart, Scope: e.Scope, Time: e.Time})
	}
	return recorded, l.x.Append(ctx, events...)
}

// caught returns the failure that a Catch handler was called for, if the run stopped before it had an outcome.
func (l *ledger[S, U]) caught(c *call[S, U]) (*NodeError, error) {
	if !l.x.Replaying() || c.node.Catch == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	events := l.x.History(c.scope)
	for i := len(events) - 1; i > 0; i-- {
		if events[i].Kind != journal.CatchStart || events[i-1].Kind != journal.StepError {
			continue
		}
		e := events[i-1]
		recorded, err := l.x.Recorded(e)
		if err != nil {
			return nil, l.fault(e, err)
		}
		c.s.at().attempt = e.Attempts
		return c.failed(recorded), nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// advance is the machine's Advance, recorded. The state is that of the last super-step whose record is there.
func (l *ledger[S, U]) advance(ctx context.Context) error {
	m := &l.d.m
	step, before, view := m.step, m.taken, m.view
	err := m.Advance()
	if m.taken == before {
		return cmp.Or(l.flushHeld(ctx), err)
	}
	if journaled := l.barrier(ctx, step); journaled != nil {
		m.taken, m.view = before, view
		return journaled
	}
	return err
}

func (l *ledger[S, U]) takeHeld() []journal.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.held
	l.held = nil
	return held
}

// barrier records that the super-step of this number is done, and what is next. The last one of a graph is written along
// with what comes behind it.
func (l *ledger[S, U]) barrier(ctx context.Context, step int) error {
	events, err := l.barrierEvents(step)
	if err != nil {
		return cmp.Or(l.flushHeld(ctx), err) // the tasks have done their work all the same
	}
	l.x.TurnAway()
	events = append(l.takeHeld(), events...)
	if l.d.m.Done() {
		l.x.Hold(events...)
		return nil
	}
	return l.x.Append(ctx, events...)
}

// barrierEvents are the record of a super-step, and a checkpoint if there is to be one.
func (l *ledger[S, U]) barrierEvents(step int) ([]journal.Event, error) {
	next, err := l.d.m.planned(l.salt)
	if err != nil {
		return nil, err
	}
	m := barrierMeta{Next: next}
	l.d.run.mu.Lock()
	m.Usage = l.d.run.usage
	l.d.run.mu.Unlock()
	events := []journal.Event{{
		Kind: journal.SuperStepDone, Scope: l.d.scope, N: step, Time: durable.Now(), Meta: mustMarshal(m),
	}}
	if l.d.m.Done() {
		return events, nil
	}
	cp, due, err := l.checkpointDue()
	if due {
		events = append(events, cp)
	}
	return events, err
}

// flushHeld records the outcome that waits for a barrier which does not come.
func (l *ledger[S, U]) flushHeld(ctx context.Context) error {
	held := l.takeHeld()
	if len(held) == 0 {
		return nil
	}
	return l.x.Append(ctx, held...)
}

// checkpointDue returns a checkpoint if the updates since the last one outweigh it.
func (l *ledger[S, U]) checkpointDue() (journal.Event, bool, error) {
	weight := l.weight.Load()
	if l.d.scope != "" || weight < max(l.checkpoint, leastCheckpoint) {
		return journal.Event{}, false, nil
	}
	m, ok := l.d.m.memo()
	if !ok {
		return journal.Event{}, false, nil
	}
	state, err := l.x.Encode("State", l.d.m.State())
	if err != nil {
		return journal.Event{}, false, err
	}
	// A reducer may have made what JSON does not keep. Who goes on from the checkpoint has not got it, so nobody has.
	kept, err := l.state(state, nil)
	if err != nil {
		return journal.Event{}, false, notReadBack[S]("State", err)
	}
	l.d.m.setState(kept)
	l.d.run.mu.Lock()
	usage := l.d.run.usage
	l.d.run.mu.Unlock()
	l.weight.Store(0)
	l.checkpoint = int64(len(state))
	return l.x.Checkpoint(mustMarshal(checkpointMeta{Machine: m, Usage: usage}), state), true, nil
}

type checkpointMeta struct {
	Machine memo       `json:"machine"`
	Usage   task.Usage `json:"usage,omitzero"`
}

// restore brings the driver's machine to where the journal says that the graph is.
func (l *ledger[S, U]) restore() error {
	if !l.x.Replaying() {
		return nil
	}
	for _, e := range l.x.History(l.d.scope) {
		if err := l.follow(e); err != nil {
			return err
		}
	}
	if !l.d.m.Done() && l.d.m.SuperStepsLeft() < 0 {
		return l.d.m.limitError()
	}
	return nil
}

// follow takes the machine past a recorded barrier, or to a recorded checkpoint.
func (l *ledger[S, U]) follow(e journal.Event) error {
	switch e.Kind {
	case journal.SuperStepDone:
		return l.redo(e)
	case journal.Checkpoint:
		if err := l.resumeAt(e); err != nil {
			return l.fault(e, err)
		}
	}
	return nil
}

func (l *ledger[S, U]) resumeAt(cp journal.Event) error {
	var m checkpointMeta
	if err := json.Unmarshal(cp.Meta, &m); err != nil {
		return err
	}
	by := l.migration()
	if by != nil {
		m.Machine.renamed(by)
	}
	state, err := l.state(cp.Payload, by)
	if err != nil {
		return err
	}
	l.checkpoint = int64(len(cp.Payload))
	l.d.run.usage = m.Usage
	return l.d.m.recall(m.Machine, state)
}

// state reads a recorded state.
func (l *ledger[S, U]) state(payload []byte, by *Migration) (s S, err error) {
	defer task.Recover("decoder of the state", &err)
	data, err := l.x.Plain(payload)
	if err == nil && by != nil && by.State != nil {
		data, err = by.State(data)
	}
	if err != nil {
		return s, err
	}
	return l.d.prog.plan.DecodeState(data)
}

// redo folds a recorded super-step.
func (l *ledger[S, U]) redo(e journal.Event) error {
	if e.N != l.d.m.SuperStep() || l.d.m.Done() {
		return l.fault(e, fmt.Errorf("super-step %d is recorded where %d is expected", e.N, l.d.m.SuperStep()))
	}
	var m barrierMeta
	if err := json.Unmarshal(e.Meta, &m); err != nil {
		return l.fault(e, err)
	}
	if l.d.m.SuperStepsLeft() < 0 {
		return l.d.m.limitError()
	}
	if err := l.serveAll(e); err != nil {
		return err
	}
	edit, err := l.edit(e)
	if err != nil {
		return l.fault(e, err)
	}
	if err := l.d.m.advance(edit); err != nil {
		if _, limit := err.(*MaxSuperStepsError); !limit { //nolint:errorlint // as the machine returns it
			return l.fault(e, err)
		}
	}
	next, err := l.d.m.planned(l.salt)
	if err != nil {
		return l.fault(e, err)
	}
	if by := l.migration(); by != nil {
		for i := range m.Next {
			m.Next[i].Node = by.rename(m.Next[i].Node)
		}
	}
	if !samePlan(next, m.Next) {
		return &durable.NonDeterminismError{
			RunID: l.x.RunID(), Scope: l.d.scope, Seq: e.Seq, Plan: true,
			Recorded: fmt.Sprintf("that super-step %d is followed by %s", e.N, describePlan(m.Next)),
			Met:      fmt.Sprintf("%s, by the routers of %q", describePlan(next), l.d.m.names(l.d.m.ran)),
		}
	}
	if m.Usage != (task.Usage{}) && l.d.scope == "" {
		l.d.run.usage = m.Usage
	}
	return nil
}

// serveAll completes all tasks of a super-step whose barrier is recorded.
func (l *ledger[S, U]) serveAll(barrier journal.Event) error {
	for i := range l.d.m.Tasks() {
		served, err := l.serve(i)
		if err != nil {
			return err
		}
		if !served {
			return l.fault(barrier, fmt.Errorf("task %q of super-step %d has no outcome", l.d.scopeOf(i), barrier.N))
		}
	}
	return nil
}

// edit is the update that a fork has added to a super-step; nil for none.
func (l *ledger[S, U]) edit(e journal.Event) (_ *U, err error) {
	if len(e.Payload) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	defer task.Recover("decoder of an update", &err)
	data, err := l.x.Plain(e.Payload)
	if err != nil {
		return nil, err
	}
	u, err := l.update(data, l.migration())
	return &u, err
}

func describePlan(tasks []planned) string {
	if len(tasks) == 0 {
		return "nothing"
	}
	var names []string
	for _, t := range tasks {
		if len(t.Items) > 0 {
			names = append(names, fmt.Sprintf("%s with %d items", t.Node, len(t.Items)))
		} else {
			names = append(names, t.Node)
		}
	}
	return strings.Join(names, ", ")
}

// mustMarshal is for our own types, which JSON can hold.
func mustMarshal(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("pawl: internal: " + err.Error())
	}
	return data
}
