package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// CutAt lets the next write end at a place, and fails every call from then on, as if the process had died.
func (s *Store) CutAt(name string) {
	var dead atomic.Bool
	cut := fmt.Errorf("%w: cut off %s", errGone, name)
	hook := func(p place) error {
		if string(p) == name {
			dead.Store(true)
		}
		if dead.Load() {
			return cut
		}
		return nil
	}
	s.committer.hook.Store(&hook)
}

// At calls f whenever a write comes to a place, and fails the write there with what it returns.
func (s *Store) At(name string, f func() error) {
	hook := func(p place) error {
		if string(p) == name {
			return f()
		}
		return nil
	}
	s.committer.hook.Store(&hook)
}

// MaxPages bounds the file, as a full disk does, or no more if n is 0. No write may be under way.
func (s *Store) MaxPages(n int) error {
	if n == 0 {
		n = 1 << 30
	}
	var got int
	err := s.committer.conn.QueryRowContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", n)).Scan(&got)
	if err == nil && got > n {
		err = errors.New("the file is larger than that")
	}
	return err
}

// Pages is how large the file is.
func (s *Store) Pages() (n int, err error) {
	err = s.committer.conn.QueryRowContext(context.Background(), "PRAGMA page_count").Scan(&n)
	return n, err
}

// Settings are those of the committer's connection and of a reader's.
func (s *Store) Settings(name string) (writer, reader string, err error) {
	err = errors.Join(
		s.committer.conn.QueryRowContext(context.Background(), "PRAGMA "+name).Scan(&writer),
		s.reader.QueryRowContext(context.Background(), "PRAGMA "+name).Scan(&reader),
	)
	return writer, reader, err
}

// Leases is how many leases the store keeps in mind. No write may be under way.
func (s *Store) Leases() int { return len(s.committer.tx.leases) }

// QueueQueries are those that Take and Create ask about queues and keys, with the index that each is to use.
func QueueQueries() map[string]string {
	return map[string]string{
		selectReady: "runs_by_ready", selectRunning: "runs_running", selectProgram: "runs_by_ready", selectDedup: "runs_by_dedup",
	}
}
