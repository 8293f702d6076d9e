package postgres

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

// CutAt lets the next write come to a place, does something to its connections, and fails every call from then on, as if the
// process had died.
func (s *Store) CutAt(name string, kill func()) {
	var dead atomic.Bool
	cut := fmt.Errorf("cut off %s: %w", name, io.ErrUnexpectedEOF)
	hook := func(p place) error {
		switch {
		case string(p) == name && !dead.Swap(true):
			kill()
			if p != behindEnd {
				return nil // what comes of it is for the connection to find out
			}
			return cut
		case dead.Load():
			return cut
		}
		return nil
	}
	s.hook.Store(&hook)
}

// At calls f whenever a write comes to a place, and fails the write there with what it returns.
func (s *Store) At(name string, f func() error) {
	hook := func(p place) error {
		if string(p) == name {
			return f()
		}
		return nil
	}
	s.hook.Store(&hook)
}

// Place is where the store is, for errors.
func (s *Store) Place() string { return s.place }

// Schema is the name of its schema.
func (s *Store) Schema() string { return s.schema }

// Channel is the name under which its notifications are sent.
func (s *Store) Channel() string { return s.channel() }

// Lock is the session's lock.
func (s *Store) Lock() int64 { return s.session.name() }

// SessionPid is the backend of its session. The session must not be changing.
func (s *Store) SessionPid() uint32 { return s.session.conn.PgConn().PID() }

// Settings are those of the committer's connection.
func (s *Store) Settings(name string) (value string, err error) {
	err = s.committers[0].conn.QueryRow(context.Background(), "SELECT current_setting($1)", name).Scan(&value)
	return value, err
}

// Leases is how many leases the store keeps in mind. No write may be under way.
func (s *Store) Leases() (n int) {
	for _, c := range s.committers {
		n += len(c.tx.leases)
	}
	return n
}

// Statements are those whose plans must not depend on how many runs there are.
func Statements() map[string]string {
	return map[string]string{
		"append one": insertOne, "append many": insertMany, "lock": lockRuns, "read": readRuns, "keyed": readKeyed, "save": saveRun,
		"rename": renameHolder, "load": selectRun, "rows": selectRows, "inbox": selectMessages, "news": selectNews, "message": insertMessage,
		"take": pickReady, "take orphans": pickOrphans, "take stranded": pickStranded, "take picked": takePicked,
		"taken key": selectTaken, "create": insertRun, "call": callWorkers, "announce": announce,
	}
}

// ParseWord reads a notification.
func ParseWord(payload string) (run [32]byte, id int64, err error) { return parseWord(payload) }

// ParseCall reads a notification of a queue.
func ParseCall(payload string) (queue [32]byte, store string, err error) { return parseCall(payload) }

// CallWord writes one.
func CallWord(queue [32]byte, store string) string { return callWord(queue, store) }

// Word writes one.
func Word(run [32]byte, id int64) string { return word(run, id) }
