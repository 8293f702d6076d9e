package postgres

import (
	"context"
	"time"

	"github.com/pawl-go/pawl/journal"
)

// take gives the run to an owner; give is what the owner gets.
func (st *runState) take(c journal.Claim, t *tx) {
	st.become(journal.Running, time.Time{}, t.now)
	st.owner, st.holder, st.until = c.Owner, t.holder, journal.Stamp(t.now.Add(c.TTL))
}

func (st *runState) give(t *tx) journal.Lease {
	t.pending[st.id] = &lease{key: st.key, token: st.token, head: st.head, until: st.until}
	return journal.Lease{Run: st.id, Token: st.token, Owner: st.owner, Until: st.until, Head: st.head}
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
	if err := journal.CheckID(l.Run); err != nil {
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
		st.until, st.changed = journal.Stamp(t.now.Add(o.ttl)), true
		o.given = o.lease
		o.given.Until = st.until
		return nil
	}
	st.token = t.number() // of nobody: what the owner may still try is refused
	st.free()
	t.pending[st.id] = nil
	if st.status == journal.Running {
		st.become(journal.Pending, time.Time{}, t.now)
	}
	return nil
}
