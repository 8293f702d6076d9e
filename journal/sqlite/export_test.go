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
	s.hook.Store(&hook)
}

// MaxPages bounds the file, as a full disk does. No write may be under way.
func (s *Store) MaxPages(n int) error {
	var got int
	err := s.conn.QueryRowContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", n)).Scan(&got)
	if err == nil && got > n {
		err = errors.New("the file is larger than that")
	}
	return err
}
