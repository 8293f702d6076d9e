package journaltest_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

// disks is what outlives the stores of a test.
type disks struct{ of sync.Map }

func (d *disks) open(inner journal.Store) *journaltest.Faulty {
	f := journaltest.NewFaulty(inner)
	d.of.Store(f, inner)
	return f
}

func (d *disks) again(_ *testing.T, s journal.Store) journal.Store {
	inner, _ := d.of.Load(s)
	return d.open(inner.(journal.Store))
}

// die cuts a store at a moment of its next write.
func die(when journaltest.When) func(*testing.T, journal.Store) {
	return func(_ *testing.T, s journal.Store) {
		f := s.(*journaltest.Faulty)
		f.OnWrite(func(w journaltest.Write) {
			if w.When == when {
				f.Freeze()
			}
		})
	}
}

func TestTheSuiteHoldsOfAStoreThatIsCutReopenedSharedAndDamaged(t *testing.T) {
	var d disks
	journaltest.Run(t, journaltest.Harness{
		Open:   func(*testing.T) journal.Store { return d.open(&damaged{Store: memory.New()}) },
		Reopen: d.again,
		Second: d.again,
		Cuts: []journaltest.Cut{
			{Name: "before", When: journaltest.Before, Arm: die(journaltest.Before)},
			{Name: "inside", When: journaltest.Inside, Arm: die(journaltest.Before)},
			{Name: "inside late", When: journaltest.Inside, Arm: die(journaltest.After)},
			{Name: "after", When: journaltest.After, Arm: die(journaltest.After)},
		},
		Corrupt: func(_ *testing.T, s journal.Store, run string, seq int64) {
			inner, _ := d.of.Load(s)
			store := inner.(*damaged)
			store.run, store.seq = run, seq
		},
	})
}

// damaged is a store one of whose events is not what it was.
type damaged struct {
	*memory.Store

	run string
	seq int64
}

func (d *damaged) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range d.Store.Events(ctx, run, after) {
			if run == d.run && e.Seq == d.seq {
				yield(journal.Event{}, &journal.CorruptError{Run: run, Seq: e.Seq, Err: errors.New("rust")})
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestTheSuiteHoldsOfAStoreWithoutFurtherAbilities(t *testing.T) {
	journaltest.Run(t, journaltest.Harness{Open: func(*testing.T) journal.Store { return plain{memory.New()} }})
}

// faults are stores with one fault each, and the part of the suite that finds it.
var faults = map[string]struct {
	part string
	wrap func(*memory.Store) journal.Store
}{
	"forgets the claim":                   {"create", func(s *memory.Store) journal.Store { return noClaim{s} }},
	"makes a run twice":                   {"create", func(s *memory.Store) journal.Store { return overwrites{s} }},
	"has a record for everybody":          {"load", func(s *memory.Store) journal.Store { return knowsAll{s} }},
	"lets others take what is held":       {"acquire", func(s *memory.Store) journal.Store { return steals{s} }},
	"goes on after the end":               {"acquire", func(s *memory.Store) journal.Store { return undead{s} }},
	"renews what is lost":                 {"renew", func(s *memory.Store) journal.Store { return renewsAll{s} }},
	"does not fence":                      {"append", func(s *memory.Store) journal.Store { return &fenceless{Store: s} }},
	"does not fence, seen by concurrency": {"concurrency", func(s *memory.Store) journal.Store { return &fenceless{Store: s} }},
	"writes at any place":                 {"append", func(s *memory.Store) journal.Store { return anywhere{s} }},
	"knows nothing again":                 {"append", func(s *memory.Store) journal.Store { return forgetful{s} }},
	"cuts a batch at its end":             {"append", func(s *memory.Store) journal.Store { return trims{s} }},
	"never is due":                        {"record", func(s *memory.Store) journal.Store { return dueless{s} }},
	"begins with the first event":         {"events", func(s *memory.Store) journal.Store { return fromFirst{s} }},
	"loses a late event":                  {"events", func(s *memory.Store) journal.Store { return loses{s} }},
	"gives an error twice":                {"events", func(s *memory.Store) journal.Store { return twice{s} }},
	"takes every message":                 {"inbox", func(s *memory.Store) journal.Store { return keyless{s} }},
	"folds ids":                           {"data", func(s *memory.Store) journal.Store { return folds{s} }},
	"cuts payloads":                       {"data", func(s *memory.Store) journal.Store { return cuts{s} }},
	"takes no heed of contexts":           {"context", func(s *memory.Store) journal.Store { return deaf{s} }},
	"lists the oldest first":              {"list", func(s *memory.Store) journal.Store { return oldest{s} }},
	"has a page behind the last":          {"list", func(s *memory.Store) journal.Store { return endless{s} }},
	"deletes what is held":                {"delete", func(s *memory.Store) journal.Store { return deletesAll{s} }},
	"does not watch":                      {"watch", func(s *memory.Store) journal.Store { return blind{s} }},
	"forgets the queue":                   {"create", func(s *memory.Store) journal.Store { return queueless{s} }},
	"lists every queue":                   {"list", func(s *memory.Store) journal.Store { return allQueues{s} }},
	"sends no letters":                    {"outbox", func(s *memory.Store) journal.Store { return unsent{s} }},
	"sends letters again":                 {"outbox", func(s *memory.Store) journal.Store { return resends{s} }},
	"sends letters of what is refused":    {"outbox", func(s *memory.Store) journal.Store { return sendsFirst{s} }},
	"sends letters behind the append":     {"cut", func(s *memory.Store) journal.Store { return sendsLate{journaltest.NewFaulty(s)} }},
	"knows no keys":                       {"dedup", func(s *memory.Store) journal.Store { return manyKeys{s} }},
	"never frees a key":                   {"dedup", func(s *memory.Store) journal.Store { return &oneKey{Store: s} }},
	"looks for a key and then creates":    {"dedup", func(s *memory.Store) journal.Store { return &racesForKeys{Store: s} }},
	"takes without a lease":               {"take", func(s *memory.Store) journal.Store { return leaseless{s} }},
	"gives a run to two":                  {"take", func(s *memory.Store) journal.Store { return &givesTwice{Store: s} }},
	"takes by name alone":                 {"take", func(s *memory.Store) journal.Store { return byName{s} }},
	"takes the newest first":              {"take", func(s *memory.Store) journal.Store { return newest{s} }},
	"takes before the time":               {"take", func(s *memory.Store) journal.Store { return early{s} }},
	"takes what is held":                  {"take", func(s *memory.Store) journal.Store { return orphansAll{s} }},
	"takes from no queue":                 {"take", func(s *memory.Store) journal.Store { return anyQueue{s} }},
	"sleeps over what was not seen":       {"ready", func(s *memory.Store) journal.Store { return sleeps{s} }},
	"sleeps over messages":                {"ready", func(s *memory.Store) journal.Store { return &deafAsleep{Store: s} }},
	"requeues at once":                    {"ready", func(s *memory.Store) journal.Store { return dueless{s} }},
	"holds any number":                    {"held", func(s *memory.Store) journal.Store { return unlimited{s} }},
	"counts before it takes":              {"held", func(s *memory.Store) journal.Store { return &miscounts{Store: s} }},
	"hears no announcement":               {"stranded", func(s *memory.Store) journal.Store { return unheard{s} }},
	"hears the first announcement only":   {"stranded", func(s *memory.Store) journal.Store { return &heardOnce{Store: s} }},
	"strands at once":                     {"stranded", func(s *memory.Store) journal.Store { return hasty{s} }},
	"strands its own programs only":       {"stranded", func(s *memory.Store) journal.Store { return choosy{s} }},
	"tells no worker":                     {"queue", func(s *memory.Store) journal.Store { return untold{s} }},
	"tells all workers of every queue":    {"queue", func(s *memory.Store) journal.Store { return oneWatch{s} }},
}

// which names the fault for the process that runs the suite over it.
const which = "PAWL_JOURNALTEST_FAULT"

func TestFaultyStore(t *testing.T) {
	fault, ok := faults[os.Getenv(which)]
	if !ok {
		return // it is for TestTheSuiteFindsFaults
	}
	h := journaltest.Harness{
		Open:     func(*testing.T) journal.Store { return fault.wrap(memory.New()) },
		Patience: 300 * time.Millisecond,
	}
	if fault.part == "cut" {
		h.Cuts = []journaltest.Cut{{Name: "after", When: journaltest.After, Arm: func(_ *testing.T, s journal.Store) {
			f := s.(sendsLate)
			f.OnWrite(func(w journaltest.Write) {
				if w.When == journaltest.After {
					f.Freeze()
				}
			})
		}}}
		var inner sync.Map
		h.Open = func(*testing.T) journal.Store {
			store := memory.New()
			s := fault.wrap(store)
			inner.Store(s, store)
			return s
		}
		h.Reopen = func(_ *testing.T, s journal.Store) journal.Store {
			store, _ := inner.Load(s)
			return store.(journal.Store)
		}
	}
	journaltest.Run(t, h)
}

func TestTheSuiteFindsFaults(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), self, "-test.short", "-test.run=^TestFaultyStore$/^"+fault.part+"$")
			cmd.Env = append(os.Environ(), which+"="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the suite has found nothing")
			assert.Contains(t, string(out), "--- FAIL: TestFaultyStore/"+fault.part+"/")
			assert.NotContains(t, string(out), "panic: ")
		})
	}
}

type noClaim struct{ *memory.Store }

func (s noClaim) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	n.Claim = journal.Claim{}
	return s.Store.Create(ctx, n)
}

type overwrites struct{ *memory.Store }

func (s overwrites) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	_ = s.Delete(ctx, n.Run.ID)
	return s.Store.Create(ctx, n)
}

type knowsAll struct{ *memory.Store }

func (s knowsAll) Load(ctx context.Context, run string) (journal.Run, error) {
	r, err := s.Store.Load(ctx, run)
	if errors.Is(err, journal.ErrNotFound) {
		return journal.Run{ID: run}, nil
	}
	return r, err
}

type steals struct{ *memory.Store }

func (s steals) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	l, err := s.Store.Acquire(ctx, run, c)
	if errors.Is(err, journal.ErrLocked) {
		return journal.Lease{Run: run, Token: 1, Owner: c.Owner}, nil
	}
	return l, err
}

type undead struct{ *memory.Store }

func (s undead) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	l, err := s.Store.Acquire(ctx, run, c)
	if errors.Is(err, journal.ErrEnded) {
		return journal.Lease{Run: run, Token: 1, Owner: c.Owner}, nil
	}
	return l, err
}

type renewsAll struct{ *memory.Store }

func (s renewsAll) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	renewed, err := s.Store.Renew(ctx, l, ttl)
	if errors.Is(err, journal.ErrFenced) {
		return l, nil
	}
	return renewed, err
}

// fenceless takes every lease for the latest one of its run.
type fenceless struct {
	*memory.Store

	latest sync.Map
}

func (s *fenceless) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	l, err := s.Store.Acquire(ctx, run, c)
	if err == nil {
		s.latest.Store(run, l)
	}
	return l, err
}

func (s *fenceless) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if latest, ok := s.latest.Load(l.Run); ok {
		l = latest.(journal.Lease)
	}
	return s.Store.Append(ctx, l, a)
}

type anywhere struct{ *memory.Store }

func (s anywhere) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if r, err := s.Load(ctx, l.Run); err == nil {
		a.After = r.Head
	}
	return s.Store.Append(ctx, l, a)
}

type forgetful struct{ *memory.Store }

func (s forgetful) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if r, err := s.Load(ctx, l.Run); err == nil && r.Head != a.After {
		return &journal.RefusedError{Run: l.Run, Reason: journal.ErrConflict}
	}
	return s.Store.Append(ctx, l, a)
}

type trims struct{ *memory.Store }

func (s trims) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if i := slices.IndexFunc(a.Events, func(e journal.Event) bool { return e.Kind.Terminal() }); i >= 0 {
		a.Events = a.Events[:i+1]
	}
	return s.Store.Append(ctx, l, a)
}

type dueless struct{ *memory.Store }

func (s dueless) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	a.Due = time.Time{}
	return s.Store.Append(ctx, l, a)
}

type fromFirst struct{ *memory.Store }

func (s fromFirst) Events(ctx context.Context, run string, _ int64) iter.Seq2[journal.Event, error] {
	return s.Store.Events(ctx, run, 0)
}

type loses struct{ *memory.Store }

func (s loses) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range s.Store.Events(ctx, run, after) {
			if e.Seq != 2000 && !yield(e, err) {
				return
			}
		}
	}
}

type twice struct{ *memory.Store }

func (s twice) Events(ctx context.Context, run string, after int64) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range s.Store.Events(ctx, run, after) {
			if !yield(e, err) || err != nil && !yield(e, err) {
				return
			}
		}
	}
}

type keyless struct{ *memory.Store }

func (s keyless) Send(ctx context.Context, run string, m journal.Message) (journal.Message, error) {
	m.Key = ""
	return s.Store.Send(ctx, run, m)
}

type folds struct{ *memory.Store }

func (s folds) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	n.Run.ID = strings.TrimRight(n.Run.ID, " ")
	return s.Store.Create(ctx, n)
}

type cuts struct{ *memory.Store }

func (s cuts) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	const most = 1<<20 - 1
	a.Events = slices.Clone(a.Events)
	for i := range a.Events {
		e := &a.Events[i]
		e.Payload = e.Payload[:min(most, len(e.Payload))]
	}
	return s.Store.Append(ctx, l, a)
}

type deaf struct{ *memory.Store }

func (s deaf) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	return s.Store.Append(context.WithoutCancel(ctx), l, a)
}

type oldest struct{ *memory.Store }

func (s oldest) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	page, err := s.Store.List(ctx, q)
	slices.Reverse(page.Runs)
	return page, err
}

type endless struct{ *memory.Store }

func (s endless) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	page, err := s.Store.List(ctx, q)
	if page.Next == "" && len(page.Runs) == q.Limit {
		page.Next = "1"
	}
	return page, err
}

type deletesAll struct{ *memory.Store }

func (s deletesAll) Delete(ctx context.Context, run string) error {
	if err := s.Store.Delete(ctx, run); !errors.Is(err, journal.ErrLocked) {
		return err
	}
	return nil
}

type blind struct{ *memory.Store }

func (blind) Watch(string) (<-chan struct{}, func()) { return nil, func() {} }
