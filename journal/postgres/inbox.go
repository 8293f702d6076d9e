package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-go/pawl/journal"
)

// Send implements journal.Store.
func (s *Store) Send(ctx context.Context, run string, m journal.Message) (journal.Message, error) {
	if err := journal.CheckID(run); err != nil {
		return journal.Message{}, err
	}
	if err := s.begin(ctx); err != nil {
		return journal.Message{}, err
	}
	defer s.end()
	o := &sending{id: run, message: m}
	if err := s.committer(run).do(ctx, o, len(m.Payload)); err != nil {
		return journal.Message{}, err
	}
	return o.there, nil
}

type sending struct {
	id             string
	message, there journal.Message
}

func (*sending) op() string    { return "send" }
func (o *sending) run() string { return o.id }

func (o *sending) need(n *needs) {
	n.addMessage(o.id, o.message.Key)
}

// addMessage asks for what deliver needs.
func (n *needs) addMessage(run, key string) {
	h := n.addRun(run)
	n.numbers++
	if key != "" {
		n.keys = append(n.keys, keyOf{h, key})
	}
}

func (o *sending) apply(t *tx) error {
	st, err := t.run(o.id)
	if err != nil {
		return err
	}
	if first, ok := t.keyed[keyOf{st.hash, o.message.Key}]; ok && o.message.Key != "" {
		// Also of an ended run: who sends one of its messages again learns that it got there.
		o.there = first
		o.there.Payload = append([]byte(nil), first.Payload...)
		return nil
	}
	if st.status.Terminal() {
		return ended(st)
	}
	o.there = t.deliver(st, o.message)
	return nil
}

// post delivers a letter, if the run that it is for takes it.
func (t *tx) post(l journal.Letter) {
	st := t.runs[hashOf(l.Run)]
	if st == nil || st.gone || st.status.Terminal() {
		return
	}
	if _, ok := t.keyed[keyOf{st.hash, l.Message.Key}]; ok && l.Message.Key != "" {
		return
	}
	t.deliver(st, l.Message)
}

// deliver puts a new message into a run's inbox and tells of it.
func (t *tx) deliver(st *runState, m journal.Message) journal.Message {
	there, id := t.receive(st, m)
	t.keyed[keyOf{st.hash, m.Key}] = there
	st.rouse(st.messages-1, t.now)
	t.write("SELECT pg_notify($1, $2)", t.store.channel(), word(st.hash, id))
	t.notes = append(t.notes, note{run: st.hash, id: id})
	return there
}

// Of a run that is to be made in the same transaction, it is not known before whether it is.
const insertMessage = `INSERT INTO inbox (run, seq, id, kind, name, key, time, payload, sum)
	SELECT key, $2, $3, $4, $5, $6, $7, $8, $9 FROM runs WHERE key = $1`

// receive puts a message into a run's inbox.
func (t *tx) receive(st *runState, m journal.Message) (there journal.Message, id int64) {
	st.messages++
	m.Seq, m.Time, m.Payload = st.messages, journal.Stamp(m.Time), append([]byte(nil), m.Payload...)
	id = t.number()
	t.write(insertMessage, st.key, m.Seq, id, text(m.Kind), text(m.Name), text(m.Key), toTime(m.Time), m.Payload,
		int64(messageSum(st.id, &m)))
	return m, id
}

// firstOfKeys returns messages without those that have the key of one before.
func firstOfKeys(messages []journal.Message) []journal.Message {
	seen := map[string]bool{}
	var first []journal.Message
	for _, m := range messages {
		if m.Key == "" || !seen[m.Key] {
			first = append(first, m)
		}
		seen[m.Key] = true
	}
	return first
}

const (
	messageColumns = "i.seq, i.kind, i.name, i.key, i.time, i.payload, i.sum"
	selectMessages = `SELECT r.hash, ` + messageColumns + ` FROM runs r LEFT JOIN inbox i ON i.run = r.key AND i.seq > $2
		WHERE r.hash = $1 ORDER BY i.seq`
)

// Inbox implements journal.Store.
func (s *Store) Inbox(ctx context.Context, run string, after int64) (messages []journal.Message, err error) {
	id := hashOf(run)
	err = s.reading(ctx, "read the inbox", run, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, selectMessages, id[:], after)
		if err != nil {
			return err
		}
		messages, err = scanMessages(run, rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return messages, nil
}

// scanMessages reads the messages of a run; without one row, there is no such run.
func scanMessages(run string, rows pgx.Rows) (messages []journal.Message, err error) {
	defer rows.Close()
	found := false
	for rows.Next() {
		found = true
		var m journal.Message
		var sum uint32
		var h []byte
		switch err := scanMessage(rows, &m, &sum, &h); {
		case errors.Is(err, errNoMessage):
			continue
		case err != nil:
			return messages, err
		}
		if err := checkSum(run, &m, sum); err != nil {
			return messages, err
		}
		messages = append(messages, m)
	}
	if err := rows.Err(); err != nil {
		return messages, err
	}
	if !found {
		return nil, pgx.ErrNoRows
	}
	return messages, nil
}

// errNoMessage is a run without messages.
var errNoMessage = errors.New("no message")

func scanMessage(row pgx.Row, m *journal.Message, sum *uint32, run *[]byte) error {
	var seq, crc *int64
	var at *time.Time
	err := row.Scan(run, &seq, texted(&m.Kind), (*text)(&m.Name), (*text)(&m.Key), &at, &m.Payload, &crc)
	if err != nil {
		return err
	}
	if seq == nil || crc == nil {
		return errNoMessage
	}
	m.Seq, m.Time, *sum = *seq, fromTime(at), uint32(*crc) //nolint:gosec // it was one
	return nil
}

func checkSum(run string, m *journal.Message, sum uint32) error {
	if messageSum(run, m) != sum {
		return &journal.CorruptError{Run: run, Err: fmt.Errorf("message %d: the checksum does not match", m.Seq)}
	}
	return nil
}

// messageSum is a checksum over all of a message, and over whose it is.
func messageSum(run string, m *journal.Message) uint32 {
	var b []byte
	for _, part := range []string{run, string(m.Kind), m.Name, m.Key} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	b = binary.AppendVarint(b, m.Seq)
	b = binary.AppendVarint(b, m.Time.UnixMicro())
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(b, table), table, m.Payload)
}
