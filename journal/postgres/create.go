package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

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
	o := &creation{NewRun: n, row: journal.EncodeRow(id, 1, n.Events), messages: firstOfKeys(n.Messages)}
	o.turn = s.turnOf("dedup", n.Run.Dedup)
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
	turn     int64 // of those who make runs of its deduplication key
	messages []journal.Message
	given    journal.Lease
	state    *runState
	made     bool
	newest   int64 // the id of its last message
	exists   bool  // a run of this id
	other    []byte
}

func (*creation) op() string    { return "create" }
func (o *creation) run() string { return o.Run.ID }

func (o *creation) lost(c *committer) { c.tx.forget(o.Run.ID, o.given.Token) }

// claims reports whether the caller holds the run at once.
func (o *creation) claims() bool { return o.Claim.TTL > 0 && !journal.StatusAfter(o.Events).Terminal() }

func (o *creation) need(n *needs) {
	n.numbers += 2 + len(o.messages)
	n.claims = n.claims || o.claims()
	if o.Run.Dedup != "" {
		n.turns = append(n.turns, o.turn)
	}
}

const (
	// awaitTurns takes the locks in their order, so that nobody waits for somebody who waits.
	awaitTurns = `SELECT pg_advisory_xact_lock(turn) FROM unnest($1::bigint[]) AS turn`

	unfinished = `status IN ('pending', 'running', 'suspended')`
	hasKey     = `dedup <> '' AND sha256(dedup) = sha256($1::bytea) AND ` + unfinished

	// What it finds stays so: nobody else can make a run of the key. It may be a run whose end is being written.
	selectTaken = `SELECT (SELECT id FROM runs WHERE ` + hasKey + `), EXISTS (SELECT FROM runs WHERE hash = $2)`

	insertRun = `WITH made AS (
			INSERT INTO runs (dedup, key, id, kind, name, version, fingerprint, thread, link_kind, link_run, link_step, created, status,
				updated, due, checkpoint, token, owner, holder, until, queue, program, ready)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $12, $14, $15, $16, $17, $18, $19, $20, $21, $22
			WHERE $1::bytea = ''::bytea OR NOT EXISTS (SELECT FROM runs WHERE ` + hasKey + `)
			ON CONFLICT (hash) DO NOTHING RETURNING key
		), written AS (INSERT INTO events (run, seq, n, data) SELECT key, 1, $23, $24 FROM made)
		SELECT key FROM made`

	// Within the transaction that has tried to make the run.
	notifyIfMade = `SELECT pg_notify($1, $2) FROM runs WHERE key = $3`
)

func (o *creation) apply(t *tx) error {
	o.given, o.made, o.exists, o.other = journal.Lease{}, false, false, nil
	r := &o.Run
	st := &runState{
		id: r.ID, hash: hashOf(r.ID), key: t.number(), token: t.number(), head: int64(len(o.Events)), queue: r.Queue,
		messages: int64(len(o.messages)),
	}
	o.state = st
	st.become(journal.StatusAfter(o.Events), o.Due, t.now)
	st.rouse(0, t.now)
	if i := journal.CheckpointIn(o.Events); i >= 0 {
		st.checkpoint = int64(i) + 1
	}
	var holder *int64
	if o.claims() {
		st.take(o.Claim, t)
		holder = &st.holder
	}
	if r.Dedup != "" {
		t.write(selectTaken, text(r.Dedup), st.hash[:]).QueryRow(func(row pgx.Row) error { return row.Scan(&o.other, &o.exists) })
	}
	ready := st.readyFrom()
	t.write(insertRun, text(r.Dedup), st.key, text(r.ID), text(r.Kind), text(r.Name), text(r.Version), text(r.Fingerprint),
		text(r.Thread), text(r.Link.Kind), text(r.Link.Run), r.Link.SuperStep, t.now, string(st.status), toTime(st.due), st.checkpoint,
		st.token, text(st.owner), holder, toTime(st.until), text(r.Queue), programOf(r), toTime(ready), len(o.Events), o.row,
	).Query(func(rows pgx.Rows) error {
		keys := map[int64]bool{}
		err := scanKeys(rows, keys)
		o.made = keys[st.key]
		return err
	})
	st.messages = 0
	for _, m := range o.messages {
		_, o.newest = t.receive(st, m)
	}
	if len(o.messages) > 0 {
		t.write(notifyIfMade, t.store.channel(), word(st.hash, o.newest), st.key)
	}
	if isReady(ready, t.now) {
		t.calls.addIfMade(st)
	}
	return nil
}

// programOf stands for what code runs a run, where workers look for it; nil where they do not.
func programOf(r *journal.Run) []byte {
	if r.Queue == "" {
		return nil
	}
	return r.Program().Sum()
}

// finish makes the lease one that the store has given, if the run is new.
func (o *creation) finish(t *tx) error {
	st := o.state
	switch {
	case o.made:
	case len(o.other) > 0 && !o.exists:
		return &journal.DuplicateError{Run: st.id, Other: string(o.other), Key: o.Run.Dedup}
	default:
		return &journal.ExistsError{Run: st.id}
	}
	t.calls.made(st)
	if st.holder != 0 {
		o.given = st.give(t)
	}
	if len(o.messages) > 0 {
		t.notes = append(t.notes, note{run: st.hash, id: o.newest})
	}
	return nil
}
