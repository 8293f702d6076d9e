package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// Create implements journal.Store. A Claim without a TTL is none.
func (s *Store) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	id := n.Run.ID
	if err := n.Check(); err != nil {
		return journal.Lease{}, err
	}
	if err := s.begin(ctx); err != nil {
		return journal.Lease{}, err
	}
	defer s.end()
	o := &creation{NewRun: n, row: journal.EncodeRow(id, 1, n.Events)}
	size := len(o.row)
	for i := range n.Messages {
		size += len(n.Messages[i].Payload)
	}
	if err := s.committer.do(ctx, o, size); err != nil {
		return journal.Lease{}, err
	}
	return o.given, nil
}

type creation struct {
	journal.NewRun
	row   []byte
	given journal.Lease
}

func (*creation) op() string    { return "create" }
func (o *creation) run() string { return o.Run.ID }

func (o *creation) lost(c *committer) { c.tx.forget(o.Run.ID, o.given.Token) }

func (o *creation) apply(t *tx) error {
	o.given = journal.Lease{}
	now := journal.Stamp(time.Now())
	st := &runState{id: o.Run.ID, queue: o.Run.Queue}
	st.become(journal.StatusAfter(o.Events), o.Due, now)
	st.rouse(len(o.Messages) > 0, now)
	if i := journal.CheckpointIn(o.Events); i >= 0 {
		st.checkpoint = int64(i) + 1
	}
	if err := o.insert(t, st, now); err != nil {
		return err
	}
	st.head = int64(len(o.Events))
	if _, err := t.insert(st.key, st.token, 1, len(o.Events), o.row); err != nil {
		return err
	}
	for _, m := range o.Messages {
		if _, _, err := t.receive(st, m); err != nil {
			return err
		}
	}
	if o.Claim.TTL <= 0 || st.status.Terminal() {
		return t.wake(st, now)
	}
	var err error
	o.given, err = t.lease(st, o.Claim, now)
	return err
}

// insert writes the run's record.
func (o *creation) insert(t *tx, st *runState, now time.Time) error {
	r := &o.Run
	if err := o.deduplicate(t); err != nil {
		return err
	}
	var program []byte
	if r.Queue != "" {
		program = r.Program().Sum()
	}
	t.wrote = true
	made, err := t.one(t.insertRun, []any{
		r.ID, string(r.Kind), r.Name, r.Version, r.Fingerprint, r.Thread, string(r.Link.Kind), r.Link.Run, r.Link.SuperStep,
		r.Queue, r.Dedup, program, micros(now), string(st.status), micros(st.updated), micros(st.due), micros(st.ready()), st.checkpoint,
	}, &st.key, &st.token)
	if err != nil {
		return err
	}
	if !made {
		return &journal.ExistsError{Run: r.ID}
	}
	return nil
}

// deduplicate refuses a run whose key another one has.
func (o *creation) deduplicate(t *tx) error {
	var other string
	if o.Run.Dedup == "" {
		return nil
	}
	taken, err := t.one(t.byDedup, []any{o.Run.Dedup}, &other)
	if !taken {
		return err
	}
	if _, err := t.run(o.Run.ID); err == nil {
		return &journal.ExistsError{Run: o.Run.ID}
	} else if !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	return &journal.DuplicateError{Run: o.Run.ID, Other: other, Key: o.Run.Dedup}
}

// lease gives the run to an owner.
func (t *tx) lease(st *runState, c journal.Claim, now time.Time) (journal.Lease, error) {
	st.become(journal.Running, time.Time{}, now)
	st.token++
	st.owner, st.holder, st.until = c.Owner, t.store.owners.name, journal.Stamp(now.Add(c.TTL))
	t.pending[st.id] = &lease{key: st.key, token: st.token, head: st.head, until: st.until}
	return journal.Lease{Run: st.id, Token: st.token, Owner: st.owner, Until: st.until, Head: st.head}, t.save(st)
}

// Acquire implements journal.Store. A holder whose process has died, or has closed its store, is gone at once.
func (s *Store) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	if err := journal.CheckID(run); err != nil {
		return journal.Lease{}, err
	}
	if err := s.begin(ctx); err != nil {
		return journal.Lease{}, err
	}
	defer s.end()
	o := &acquisition{id: run, claim: c}
	if err := s.committer.do(ctx, o, 0); err != nil {
		return journal.Lease{}, err
	}
	return o.given, nil
}

type acquisition struct {
	id    string
	claim journal.Claim
	given journal.Lease
}

func (*acquisition) op() string    { return "acquire" }
func (o *acquisition) run() string { return o.id }

func (o *acquisition) lost(c *committer) { c.tx.forget(o.id, o.given.Token) }

func (o *acquisition) apply(t *tx) error {
	o.given = journal.Lease{}
	st, err := t.run(o.id)
	if err != nil {
		return err
	}
	now := journal.Stamp(time.Now())
	switch {
	case st.status.Terminal():
		return ended(st)
	case t.held(st, now) && st.owner != o.claim.Owner:
		return locked(st)
	}
	o.given, err = t.lease(st, o.claim, now)
	return err
}

// Renew implements journal.Store. With a ttl of 0, the lease is given up for this store even if that cannot be written: it
// may acquire the run again, while other processes must wait until the lease has run out.
func (s *Store) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	if err := journal.CheckID(l.Run); err != nil {
		return journal.Lease{}, err
	}
	o := &renewal{lease: l, ttl: ttl}
	if err := s.begin(ctx); err != nil {
		if ctx.Err() != nil && ttl <= 0 {
			s.committer.abandon(o)
		}
		return journal.Lease{}, err
	}
	defer s.end()
	if err := s.committer.do(ctx, o, 0); err != nil {
		return journal.Lease{}, err
	}
	return o.given, nil
}

type renewal struct {
	lease journal.Lease
	ttl   time.Duration
	given journal.Lease
}

func (*renewal) op() string    { return "renew" }
func (o *renewal) run() string { return o.lease.Run }

func (o *renewal) lost(c *committer) {
	if o.ttl <= 0 {
		c.tx.forget(o.lease.Run, o.lease.Token)
	}
}

func (o *renewal) apply(t *tx) error {
	st, err := t.run(o.lease.Run)
	if err != nil {
		return err
	}
	switch {
	case !st.has(o.lease):
		return fenced(st, o.lease)
	case st.status.Terminal():
		return ended(st)
	}
	now := journal.Stamp(time.Now())
	if o.ttl > 0 {
		st.until = journal.Stamp(now.Add(o.ttl))
		if l := t.given(st.id); l != nil {
			l.until = st.until
		}
		o.given = o.lease
		o.given.Until = st.until
		return t.save(st)
	}
	st.token++ // of nobody: what the owner may still try is refused
	st.free()
	t.pending[st.id] = nil
	if st.status == journal.Running {
		st.become(journal.Pending, time.Time{}, now)
	}
	if err := t.save(st); err != nil {
		return err
	}
	return t.wake(st, now)
}

// runRef is how a run is found once its id has been looked up.
type runRef struct {
	id  string
	key int64
}

// view is one look at runs. It finds out about each holder once.
type view struct {
	owners *owners
	now    time.Time
	alive  map[string]bool
}

func (s *Store) view() *view {
	return &view{owners: s.owners, now: time.Now(), alive: map[string]bool{}}
}

// held reports whether a lease has not lapsed, and whoever has taken it has not died.
func (v *view) held(holder string, until time.Time) bool {
	if !v.now.Before(until) {
		return false
	}
	alive, known := v.alive[holder]
	if !known {
		alive = v.owners.alive(holder)
		v.alive[holder] = alive
	}
	return alive
}

// scan reads the columns of runColumns.
func (v *view) scan(scan func(...any) error) (r journal.Run, key int64, err error) {
	var holder string
	var created, updated, due, until, head sql.NullInt64
	err = scan(&key, &r.ID, &r.Kind, &r.Name, &r.Version, &r.Fingerprint, &r.Thread, &r.Link.Kind, &r.Link.Run, &r.Link.SuperStep,
		&r.Queue, &r.Dedup, &created, &r.Status, &updated, &due, &r.Checkpoint, &r.Owner, &holder, &until, &head)
	r.Created, r.Updated, r.Due, r.Until = fromMicros(created), fromMicros(updated), fromMicros(due), fromMicros(until)
	r.Head = head.Int64
	if err == nil && holder != "" && !v.held(holder, r.Until) {
		r.Owner, r.Until = "", time.Time{}
	}
	return r, key, err
}

const runColumns = `key, id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, queue, dedup,
	created, status, updated, due, checkpoint, owner, holder, until,
	(SELECT seq + n - 1 FROM events WHERE run = key ORDER BY seq DESC LIMIT 1)`
