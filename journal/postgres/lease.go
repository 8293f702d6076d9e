package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/journal"
)

// Create implements journal.Store. A Claim without a TTL is none.
func (s *Store) Create(ctx context.Context, n journal.NewRun) (journal.Lease, error) {
	id := n.Run.ID
	if err := checkID(id); err != nil {
		return journal.Lease{}, err
	}
	if len(n.Events) == 0 || n.Events[0].Kind != journal.RunStart {
		return journal.Lease{}, fmt.Errorf("pawl: run %s: its first event must be %s", quote(id), journal.RunStart)
	}
	if err := checkEnd(id, n.Events); err != nil {
		return journal.Lease{}, err
	}
	if err := s.begin(ctx); err != nil {
		return journal.Lease{}, err
	}
	defer s.end()
	o := &creation{NewRun: n, row: journal.EncodeRow(id, 1, n.Events), messages: firstOfKeys(n.Messages)}
	size := len(o.row)
	for i := range o.messages {
		size += len(o.messages[i].Payload)
	}
	if err := s.committer(id).do(ctx, o, size); err != nil {
		return journal.Lease{}, err
	}
	return o.given, nil
}

type creation struct {
	journal.NewRun
	row      []byte
	messages []journal.Message
	given    journal.Lease
	state    *runState
	made     bool
	newest   int64 // the id of its last message
}

func (*creation) op() string    { return "create" }
func (o *creation) run() string { return o.Run.ID }

func (o *creation) lost(c *committer) { c.tx.forget(o.Run.ID, o.given.Token) }

// claims reports whether the caller holds the run at once.
func (o *creation) claims() bool { return o.Claim.TTL > 0 && !journal.StatusAfter(o.Events).Terminal() }

func (o *creation) need(n *needs) {
	n.numbers += 2 + len(o.messages)
	n.claims = n.claims || o.claims()
}

const (
	insertRun = `WITH made AS (
			INSERT INTO runs (key, id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created, status,
				updated, checkpoint, token, owner, holder, until)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $11, $13, $14, $15, $16, $17)
			ON CONFLICT (hash) DO NOTHING RETURNING key
		), written AS (INSERT INTO events (run, seq, n, data) SELECT key, 1, $18, $19 FROM made)
		SELECT key FROM made`

	// Within the transaction that has tried to make the run.
	notifyIfMade = `SELECT pg_notify($1, $2) FROM runs WHERE key = $3`
)

func (o *creation) apply(t *tx) error {
	o.given, o.made = journal.Lease{}, false
	r := &o.Run
	st := &runState{id: r.ID, hash: hashOf(r.ID), key: t.number(), token: t.number(), head: int64(len(o.Events))}
	o.state = st
	st.become(journal.StatusAfter(o.Events), t.now)
	if i := journal.CheckpointIn(o.Events); i >= 0 {
		st.checkpoint = int64(i) + 1
	}
	var holder *int64
	if o.claims() {
		st.take(o.Claim, t)
		holder = &st.holder
	}
	t.write(insertRun, st.key, text(r.ID), text(r.Kind), text(r.Name), text(r.Version), text(r.Fingerprint), text(r.Thread),
		text(r.Link.Kind), text(r.Link.Run), r.Link.SuperStep, t.now, string(st.status), st.checkpoint, st.token, text(st.owner),
		holder, toTime(st.until), len(o.Events), o.row,
	).Query(func(rows pgx.Rows) error {
		keys := map[int64]bool{}
		err := scanKeys(rows, keys)
		o.made = keys[st.key]
		return err
	})
	for _, m := range o.messages {
		_, o.newest = t.receive(st, m)
	}
	if len(o.messages) > 0 {
		t.write(notifyIfMade, t.store.channel(), word(st.hash, o.newest), st.key)
	}
	return nil
}

// finish makes the lease one that the store has given, if the run is new.
func (o *creation) finish(t *tx) error {
	st := o.state
	if !o.made {
		return &journal.ExistsError{Run: st.id}
	}
	if st.holder != 0 {
		o.given = st.give(t)
	}
	if len(o.messages) > 0 {
		t.notes = append(t.notes, note{run: st.hash, id: o.newest})
	}
	return nil
}

// take gives the run to an owner; give is what the owner gets.
func (st *runState) take(c journal.Claim, t *tx) {
	st.become(journal.Running, t.now)
	st.owner, st.holder, st.until = c.Owner, t.holder, stamp(t.now.Add(c.TTL))
}

func (st *runState) give(t *tx) journal.Lease {
	t.pending[st.id] = &lease{key: st.key, token: st.token, head: st.head, until: st.until}
	return journal.Lease{Run: st.id, Token: st.token, Owner: st.owner, Until: st.until, Head: st.head}
}

// Acquire implements journal.Store. A holder whose process has died, or has closed its store, is gone at once.
func (s *Store) Acquire(ctx context.Context, run string, c journal.Claim) (journal.Lease, error) {
	if err := checkID(run); err != nil {
		return journal.Lease{}, err
	}
	if err := s.begin(ctx); err != nil {
		return journal.Lease{}, err
	}
	defer s.end()
	o := &acquisition{id: run, claim: c}
	if err := s.committer(run).do(ctx, o, 0); err != nil {
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

func (o *acquisition) need(n *needs) {
	n.addRun(o.id)
	n.numbers++
	n.claims = true
}

func (o *acquisition) apply(t *tx) error {
	o.given = journal.Lease{}
	st, err := t.run(o.id)
	if err != nil {
		return err
	}
	switch {
	case st.status.Terminal():
		return ended(st)
	case t.held(st) && st.owner != o.claim.Owner:
		return locked(st)
	}
	st.token = t.number()
	st.take(o.claim, t)
	o.given = st.give(t)
	return nil
}

// Renew implements journal.Store. With a ttl of 0, the lease is given up for this store even if that cannot be written: it
// may acquire the run again, while other processes must wait until the lease has run out.
func (s *Store) Renew(ctx context.Context, l journal.Lease, ttl time.Duration) (journal.Lease, error) {
	if err := checkID(l.Run); err != nil {
		return journal.Lease{}, err
	}
	o := &renewal{lease: l, ttl: ttl}
	if err := s.begin(ctx); err != nil {
		if ctx.Err() != nil && ttl <= 0 {
			s.committer(l.Run).abandon(o)
		}
		return journal.Lease{}, err
	}
	defer s.end()
	if err := s.committer(l.Run).do(ctx, o, 0); err != nil {
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

func (o *renewal) need(n *needs) {
	n.addRun(o.lease.Run)
	if o.ttl <= 0 {
		n.numbers++
	}
}

func (o *renewal) apply(t *tx) error {
	o.given = journal.Lease{}
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
	if o.ttl > 0 {
		st.until, st.changed = stamp(t.now.Add(o.ttl)), true
		o.given = o.lease
		o.given.Until = st.until
		return nil
	}
	st.token = t.number() // of nobody: what the owner may still try is refused
	st.free()
	t.pending[st.id] = nil
	if st.status == journal.Running {
		st.become(journal.Pending, t.now)
	}
	return nil
}
