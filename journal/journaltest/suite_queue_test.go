package journaltest_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

type queueless struct{ *memory.Store }

func (s queueless) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	n.Run.Queue = ""
	return s.Store.Create(ctx, n)
}

type allQueues struct{ *memory.Store }

func (s allQueues) List(ctx context.Context, q journal.Query) (journal.Page, error) {
	q.Queue = ""
	return s.Store.List(ctx, q)
}

type unsent struct{ *memory.Store }

func (s unsent) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	a.Outbox = nil
	return s.Store.Append(ctx, l, a)
}

// deliver sends letters one by one.
func deliver(ctx context.Context, s journal.Store, letters []journal.Letter) {
	for _, l := range letters {
		_, _ = s.Send(ctx, l.Run, l.Message) // to nobody, perhaps
	}
}

type resends struct{ *memory.Store }

func (s resends) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	letters := a.Outbox
	a.Outbox = nil
	err := s.Store.Append(ctx, l, a)
	if err == nil {
		deliver(ctx, s.Store, letters)
	}
	return err
}

type sendsFirst struct{ *memory.Store }

func (s sendsFirst) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	deliver(ctx, s.Store, a.Outbox)
	a.Outbox = nil
	return s.Store.Append(ctx, l, a)
}

type sendsLate struct{ *journaltest.Faulty }

func (s sendsLate) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	letters := a.Outbox
	a.Outbox = nil
	err := s.Faulty.Append(ctx, l, a)
	if err == nil {
		deliver(ctx, s.Faulty, letters)
	}
	return err
}

type manyKeys struct{ *memory.Store }

func (s manyKeys) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	n.Run.Dedup = ""
	return s.Store.Create(ctx, n)
}

type oneKey struct {
	*memory.Store

	used sync.Map
}

func (s *oneKey) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	if n.Run.Dedup != "" {
		if other, used := s.used.LoadOrStore(n.Run.Dedup, n.Run.ID); used {
			return journal.Lease{}, &journal.DuplicateError{Run: n.Run.ID, Other: other.(string), Key: n.Run.Dedup}
		}
	}
	return s.Store.Create(ctx, n)
}

// racesForKeys finds out who has a key from a list, and keeps no other from creating meanwhile.
type racesForKeys struct {
	*memory.Store

	keys sync.Map
}

func (s *racesForKeys) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	key := n.Run.Dedup
	if r, err := s.Load(ctx, n.Run.ID); err == nil {
		return journal.Lease{}, &journal.ExistsError{Run: r.ID}
	}
	if other, ok := s.keys.Load(key); ok && key != "" {
		if r, err := s.Load(ctx, other.(string)); err == nil && !r.Status.Terminal() {
			return journal.Lease{}, &journal.DuplicateError{Run: n.Run.ID, Other: r.ID, Key: key}
		}
	}
	time.Sleep(time.Millisecond) // so that it is sure to be found
	n.Run.Dedup = ""
	l, err := s.Store.Create(ctx, n)
	if err == nil {
		s.keys.Store(key, n.Run.ID)
	}
	return l, err
}

func (s *racesForKeys) Load(ctx context.Context, run string) (journal.Run, error) {
	r, err := s.Store.Load(ctx, run)
	s.keys.Range(func(key, id any) bool {
		if id == run {
			r.Dedup, _ = key.(string)
		}
		return true
	})
	return r, err
}

type leaseless struct{ *memory.Store }

func (s leaseless) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	t.Claim.TTL = 0
	return s.Store.Take(ctx, t)
}

type givesTwice struct {
	*memory.Store

	mu   sync.Mutex
	last []journal.Taken
}

func (s *givesTwice) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	taken, err := s.Store.Take(ctx, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(taken) == 0 && len(s.last) <= t.Limit {
		taken, s.last = s.last, nil
		return taken, err
	}
	s.last = taken
	return taken, err
}

type byName struct{ *memory.Store }

func (s byName) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	page, err := s.List(ctx, journal.Query{Limit: math.MaxInt - 1})
	if err != nil {
		return nil, err
	}
	var programs []journal.Program
	for _, r := range page.Runs {
		if slices.ContainsFunc(t.Programs, func(p journal.Program) bool { return p.Name == r.Name }) {
			programs = append(programs, r.Program())
		}
	}
	t.Programs = programs
	return s.Store.Take(ctx, t)
}

type newest struct{ *memory.Store }

func (s newest) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	taken, err := s.Store.Take(ctx, t)
	slices.Reverse(taken)
	return taken, err
}

type early struct{ *memory.Store }

func (s early) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	n.Due = time.Time{}
	return s.Store.Create(ctx, n)
}

type orphansAll struct{ *memory.Store }

func (s orphansAll) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	taken, err := s.Store.Take(ctx, t)
	if !t.Orphans || err != nil {
		return taken, err
	}
	page, err := s.List(ctx, journal.Query{Status: []journal.Status{journal.Running}, Queue: t.Queue})
	for _, r := range page.Runs {
		if lease, err := s.Acquire(ctx, r.ID, journal.Claim{Owner: r.Owner, TTL: t.Claim.TTL}); err == nil {
			taken = append(taken, journal.Taken{Lease: lease, Run: r, Was: r.Status})
		}
	}
	return taken, err
}

// anyQueue takes from all queues where none is named.
type anyQueue struct{ *memory.Store }

func (s anyQueue) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	if t.Queue != "" {
		return s.Store.Take(ctx, t)
	}
	page, err := s.List(ctx, journal.Query{Status: []journal.Status{journal.Pending}})
	var taken []journal.Taken
	for _, r := range page.Runs {
		if lease, err := s.Acquire(ctx, r.ID, t.Claim); err == nil {
			taken = append(taken, journal.Taken{Lease: lease, Run: r, Was: r.Status})
		}
	}
	return taken, err
}

type sleeps struct{ *memory.Store }

func (s sleeps) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	a.Seen = math.MaxInt64
	return s.Store.Append(ctx, l, a)
}

// deafAsleep keeps what is sent to a suspended run to itself.
type deafAsleep struct{ *memory.Store }

func (s *deafAsleep) Send(ctx context.Context, run string, m journal.Message) (journal.Message, error) {
	if r, err := s.Load(ctx, run); err == nil && r.Status == journal.Suspended {
		return m, nil
	}
	return s.Store.Send(ctx, run, m)
}

type unlimited struct{ *memory.Store }

func (s unlimited) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	t.Held = 0
	return s.Store.Take(ctx, t)
}

// miscounts lets others take what it has counted as free.
type miscounts struct{ *memory.Store }

func (s *miscounts) Take(ctx context.Context, t journal.Take) ([]journal.Taken, error) {
	if t.Held > 0 {
		page, err := s.List(ctx, journal.Query{Status: []journal.Status{journal.Running}, Queue: t.Queue})
		if err != nil {
			return nil, err
		}
		held := 0
		for _, r := range page.Runs {
			if r.Owner != "" {
				held++
			}
		}
		time.Sleep(time.Millisecond) // so that it is sure to be found
		t.Limit, t.Held = min(t.Limit, t.Held-held), 0
	}
	return s.Store.Take(ctx, t)
}

type unheard struct{ *memory.Store }

func (unheard) Announce(ctx context.Context, _ string, _ []journal.Program) error { return ctx.Err() }

type heardOnce struct {
	*memory.Store

	heard sync.Map
}

func (s *heardOnce) Announce(ctx context.Context, queue string, programs []journal.Program) error {
	for _, p := range programs {
		if _, heard := s.heard.LoadOrStore(p, true); !heard {
			if err := s.Store.Announce(ctx, queue, []journal.Program{p}); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

type hasty struct{ *memory.Store }

func (s hasty) TakeStranded(ctx context.Context, t journal.Take, _ time.Duration) ([]journal.Taken, error) {
	return s.Store.TakeStranded(ctx, t, 0)
}

type choosy struct{ *memory.Store }

func (s choosy) TakeStranded(ctx context.Context, t journal.Take, waited time.Duration) ([]journal.Taken, error) {
	taken, err := s.Store.TakeStranded(ctx, t, waited)
	kept := slices.DeleteFunc(slices.Clone(taken), func(got journal.Taken) bool {
		return !slices.Contains(t.Programs, got.Run.Program())
	})
	for _, got := range taken {
		if !slices.Contains(kept, got) {
			_, release := s.Renew(ctx, got.Lease, 0)
			err = errors.Join(err, release)
		}
	}
	return kept, err
}

type untold struct{ *memory.Store }

func (untold) WatchQueue(string) (<-chan struct{}, func()) { return nil, func() {} }

// oneWatch has one channel for all queues: who reads from it is told of any.
type oneWatch struct{ *memory.Store }

func (s oneWatch) WatchQueue(string) (<-chan struct{}, func()) { return s.Store.WatchQueue("q") }
