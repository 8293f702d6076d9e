package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

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
	if err := s.committer.do(ctx, o, len(m.Payload)); err != nil {
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

func (o *sending) apply(t *tx) error {
	st, err := t.run(o.id)
	if err != nil {
		return err
	}
	if st.status.Terminal() {
		// An ended run has its messages still: who sends one of them again learns that it got there.
		first, ok, err := t.keyed(st, o.message.Key)
		if o.there = first; ok || err != nil {
			return err
		}
		return ended(st)
	}
	o.there, err = t.send(st, o.message)
	return err
}

// send puts a message into the inbox of a run that has not ended, unless one of its key is there, and makes the run due if
// it waits for messages.
func (t *tx) send(st *runState, m journal.Message) (journal.Message, error) {
	m, added, err := t.receive(st, m)
	now := journal.Stamp(time.Now())
	if err != nil || !st.rouse(added, now) {
		return m, err
	}
	if err := t.save(st); err != nil {
		return m, err
	}
	return m, t.wake(st, now)
}

// deliver sends a letter, if there is a run that takes it.
func (t *tx) deliver(l journal.Letter) error {
	st, err := t.run(l.Run)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil
	case err != nil:
		return err
	case st.status.Terminal():
		return nil
	}
	_, err = t.send(st, l.Message)
	return err
}

// receive puts a message into a run's inbox, unless one of its key is there, and reports whether it did.
func (t *tx) receive(st *runState, m journal.Message) (there journal.Message, added bool, err error) {
	if first, ok, err := t.keyed(st, m.Key); ok || err != nil {
		return first, false, err
	}
	m.Time = journal.Stamp(m.Time)
	m.Payload = append([]byte(nil), m.Payload...)
	if _, err := t.one(t.nextMessage, []any{st.key}, &m.Seq); err != nil {
		return m, false, err
	}
	if t.wrote = true; t.fault != nil {
		return m, false, t.fault
	}
	result, err := t.insertMessage.ExecContext(context.Background(), st.key, m.Seq, string(m.Kind), m.Name, m.Key, micros(m.Time),
		m.Payload, messageSum(st.id, &m))
	if err != nil {
		return m, false, t.broken(err)
	}
	id, err := result.LastInsertId()
	t.notes = append(t.notes, note{run: st.id, id: id})
	return m, true, t.broken(err)
}

// keyed returns the message of a run that has a key.
func (t *tx) keyed(st *runState, key string) (journal.Message, bool, error) {
	if key == "" {
		return journal.Message{}, false, nil
	}
	rows, err := t.byKey.QueryContext(context.Background(), st.key, key)
	if err != nil {
		return journal.Message{}, false, t.broken(err)
	}
	messages, err := scanMessages(st.id, rows)
	if len(messages) == 0 {
		return journal.Message{}, false, t.broken(err)
	}
	return messages[0], true, t.broken(err)
}

// Inbox implements journal.Store.
func (s *Store) Inbox(ctx context.Context, run string, after int64) (messages []journal.Message, err error) {
	err = s.reading(ctx, "read the inbox", run, func() error {
		var key int64
		if err := s.read.key.QueryRowContext(ctx, run).Scan(&key); err != nil {
			return err
		}
		rows, err := s.read.messages.QueryContext(ctx, key, after)
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

func scanMessages(run string, rows *sql.Rows) (messages []journal.Message, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m journal.Message
		var at sql.NullInt64
		var sum uint32
		if err := rows.Scan(&m.Seq, &m.Kind, &m.Name, &m.Key, &at, &m.Payload, &sum); err != nil {
			return messages, err
		}
		m.Time = fromMicros(at)
		if messageSum(run, &m) != sum {
			return messages, &journal.CorruptError{Run: run, Err: fmt.Errorf("message %d: the checksum does not match", m.Seq)}
		}
		messages = append(messages, m)
	}
	return messages, rows.Err()
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
