package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-go/pawl/journal"
)

// Append implements journal.Store. The events are one row, in one transaction with the appends of other runs that wait at the
// same time.
func (s *Store) Append(ctx context.Context, l journal.Lease, a journal.Append) error {
	if err := journal.CheckID(l.Run); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	o := &appending{lease: l, Append: a, row: journal.EncodeRow(l.Run, a.After+1, a.Events)}
	o.special = len(a.Events) == 0 || len(a.Outbox) > 0 || journal.CheckpointIn(a.Events) >= 0 || journal.StatusAfter(a.Events) != ""
	size := len(o.row)
	for i := range a.Outbox {
		size += len(a.Outbox[i].Message.Payload)
	}
	return s.committer(l.Run).do(ctx, o, size)
}

type appending struct {
	lease journal.Lease
	journal.Append
	row []byte
	// special is true if more changes than the head.
	special bool
	of      *lease // what is known of the run, if that is enough
}

func (*appending) op() string    { return "append" }
func (o *appending) run() string { return o.lease.Run }

func (o *appending) need(n *needs) {
	n.addRun(o.lease.Run)
	for i := range o.Outbox {
		n.addMessage(o.Outbox[i].Run, o.Outbox[i].Message.Key)
	}
}

// known reports whether the append is one insertion: by a lease that this store has given and knows all about, and the only
// one of its batch.
func (o *appending) known(t *tx) bool {
	l := t.leases[o.lease.Run]
	if l == nil || o.special || l.token != o.lease.Token || l.head != o.After || !t.mark(l) {
		return false
	}
	o.of = l
	return true
}

// The token is the fence: if it is not the run's latest any more, no row is written. Only a lock that keeps the run from being
// changed holds until the commit what it says; whoever is changing it is waited for.
const (
	insertOne = `WITH held AS (SELECT key FROM runs WHERE key = $1 AND token = $2 FOR SHARE)
		INSERT INTO events (run, seq, n, data) SELECT key, $3, $4, $5 FROM held`

	insertMany = `WITH new AS (
			SELECT run, token, seq, n, data
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::integer[], $5::bytea[]) AS new (run, token, seq, n, data)
		), held AS (
			SELECT r.key FROM runs r JOIN new ON r.key = new.run AND r.token = new.token ORDER BY r.key FOR SHARE OF r
		)
		INSERT INTO events (run, seq, n, data) SELECT run, seq, n, data FROM new JOIN held ON held.key = new.run RETURNING run`

	insertRow = `INSERT INTO events (run, seq, n, data) VALUES ($1, $2, $3, $4)`
)

// columns are the arguments of insertMany.
type columns struct {
	run, token, seq []int64
	n               []int32
	data            [][]byte
}

func (c *columns) fill(batch []*request) {
	c.run, c.token, c.seq, c.n = c.run[:0], c.token[:0], c.seq[:0], c.n[:0]
	clear(c.data)
	c.data = c.data[:0]
	for _, r := range batch {
		o := appendOf(r)
		c.run, c.token = append(c.run, o.of.key), append(c.token, o.of.token)
		c.seq, c.n = append(c.seq, o.After+1), append(c.n, int32(len(o.Events))) //nolint:gosec // fits in memory
		c.data = append(c.data, o.row)
	}
}

func appendOf(r *request) *appending {
	o, _ := r.operation.(*appending)
	return o
}

// appendKnown does appends with one statement, and tells the callers. It returns those whose lease is not the latest any more,
// of which more must be read.
func (c *committer) appendKnown(batch []*request) (rest []*request) {
	wrote, sent, err := c.insert(batch)
	switch {
	case err == nil:
	case codeOf(err) == uniqueViolation && len(batch) == 1:
		return batch
	case definite(err) && !mayPass(err) && !isCorrupt(err):
		if len(batch) > 1 { // the bad one is to fail alone
			for i := range batch {
				rest = append(rest, c.appendKnown(batch[i:i+1])...)
			}
			return rest
		}
		fallthrough
	default:
		c.failInsert(batch, sent, err)
		return nil
	}
	for i, r := range batch {
		if !wrote(i) {
			rest = append(rest, r)
			continue
		}
		o := appendOf(r)
		o.of.head = o.After + int64(len(o.Events))
		r.err = nil
		c.settle(r)
	}
	return rest
}

func (c *committer) failInsert(batch []*request, sent bool, err error) {
	unsure := sent && !definite(err) && !pgconn.SafeToRetry(err)
	if unsure {
		for _, r := range batch {
			appendOf(r).of.head = unknown
		}
	}
	if c.conn != nil && (unsure || c.conn.IsClosed()) {
		c.drop()
	}
	c.failAs(batch, unsure, err)
}

// insert writes the rows of events whose token is the run's latest still, and returns which they were. If it fails, it also says
// whether anything was sent.
func (c *committer) insert(batch []*request) (wrote func(i int) bool, sent bool, err error) {
	if c.conn == nil {
		return nil, false, errLost
	}
	if err := c.store.at(beforeEnd); err != nil {
		return nil, false, err
	}
	c.deadline()
	ctx := context.Background()
	if len(batch) == 1 {
		o := appendOf(batch[0])
		tag, err := c.conn.Exec(ctx, insertOne, o.of.key, o.of.token, o.After+1, len(o.Events), o.row)
		if err == nil {
			err = c.store.at(behindEnd)
		}
		n := tag.RowsAffected()
		return func(int) bool { return n > 0 }, true, err
	}
	slices.SortFunc(batch, func(a, b *request) int { return cmp.Compare(appendOf(a).of.key, appendOf(b).of.key) })
	c.columns.fill(batch)
	rows, err := c.conn.Query(ctx, insertMany, c.columns.run, c.columns.token, c.columns.seq, c.columns.n, c.columns.data)
	if err != nil {
		return nil, true, err
	}
	keys := make(map[int64]bool, len(batch))
	if err := scanKeys(rows, keys); err != nil {
		return nil, true, err
	}
	return func(i int) bool { return keys[appendOf(batch[i]).of.key] }, true, c.store.at(behindEnd)
}

func (o *appending) apply(t *tx) error {
	st, err := t.run(o.lease.Run)
	if err != nil {
		return err
	}
	if !st.has(o.lease) {
		return fenced(st, o.lease)
	}
	if o.After != st.head || len(o.Events) == 0 {
		if there, err := t.has(st, o.Append); there || err != nil {
			return err
		}
	}
	switch {
	case st.status.Terminal():
		return ended(st)
	case o.After != st.head:
		return conflict(st, o.Append)
	}
	if err := journal.CheckEnd(st.id, o.Events); err != nil {
		return err
	}
	o.write(t, st)
	return nil
}

// write puts the events behind the run's last one.
func (o *appending) write(t *tx, st *runState) {
	if len(o.Events) > 0 {
		t.write(insertRow, st.key, o.After+1, len(o.Events), o.row)
		st.rows = append(st.rows, o.Append)
	}
	if i := journal.CheckpointIn(o.Events); i >= 0 {
		st.checkpoint, st.changed = o.After+1+int64(i), true
	}
	if status := journal.StatusAfter(o.Events); status != "" {
		st.become(status, o.Due, t.now)
		st.rouse(o.Seen, t.now)
	}
	if st.status.Terminal() {
		t.pending[st.id] = nil
	}
	st.head += int64(len(o.Events))
	for i := range o.Outbox {
		t.post(o.Outbox[i])
	}
}

// has reports whether these events stand behind a.After already.
func (t *tx) has(st *runState, a journal.Append) (bool, error) {
	if a.After < 0 || a.After > st.head {
		return false, nil
	}
	if int64(len(a.Events)) > st.head-a.After {
		return false, nil
	}
	next := 0
	for next < len(a.Events) {
		from := a.After + int64(next)
		there, err := t.eventsBehind(st, from)
		if err != nil {
			return false, err
		}
		if len(there) == 0 {
			return false, nil
		}
		for i := range min(len(there), len(a.Events)-next) {
			if !journal.Same(&there[i], &a.Events[next+i]) {
				return false, nil
			}
		}
		next += len(there)
	}
	return true, nil
}

// eventsBehind returns events of a run behind a number: those that another append of this transaction is to write, or those in
// the database.
func (t *tx) eventsBehind(st *runState, after int64) ([]journal.Event, error) {
	for i := range st.rows {
		if a := &st.rows[i]; after >= a.After && after < a.After+int64(len(a.Events)) {
			return stampAll(a.Events[after-a.After:]), nil
		}
	}
	page, err := readPage(context.Background(), t.conn, runRef{id: st.id, key: st.key}, after)
	if err != nil && !isOurs(err) {
		t.fault = err
	}
	return page, err
}

func stampAll(events []journal.Event) []journal.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Time = journal.Stamp(events[i].Time)
	}
	return events
}
