package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// owners is the folder of lock files beside a database. Each open store has one in it, locked for as long as its process
// lives: the system lets go of it when the process dies, however it does. A lease names its store's file, so others can tell
// a holder that is gone from one that is slow.
type owners struct {
	folder string
	own    *flock.Flock
	name   string // of our own file
}

const (
	lockSuffix = ".lock"
	schemaLock = "schema" // no owner's file: it has no suffix
)

// enter makes a lock file of our own, and clears away those of the dead.
func (o *owners) enter() error {
	const tries = 10
	var err error
	for range tries {
		if err = o.tryEnter(); err == nil {
			o.clear()
			return nil
		}
	}
	return fmt.Errorf("lock a file in %s: let this user write to the folder: %w", o.folder, err)
}

func (o *owners) tryEnter() error {
	const folderMode = 0o777 // the user's umask restricts it, as it does the database's
	if err := os.MkdirAll(o.folder, folderMode); err != nil {
		return err
	}
	name := strings.ToLower(rand.Text()) + lockSuffix
	lock := flock.New(filepath.Join(o.folder, name), flock.SetPermissions(0o666))
	ok, err := lock.TryLock()
	if err != nil {
		return err
	}
	// Between our making the file and locking it, another process may have taken it for a dead one's and removed it.
	if !ok || !isAt(lock) {
		return errors.Join(errors.New("another process removed it"), lock.Close())
	}
	o.own, o.name = lock, name
	return nil
}

// isAt reports whether a locked file still stands at its path.
func isAt(lock *flock.Flock) bool {
	locked, err := lock.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(lock.Path())
	return err == nil && os.SameFile(locked, there)
}

// leave gives our file up.
func (o *owners) leave() error {
	if o.own == nil {
		return nil
	}
	// Where an open file cannot be removed, whoever enters next does it.
	removed := os.Remove(o.own.Path())
	closed := o.own.Close()
	if closed == nil && removed != nil {
		_ = os.Remove(o.own.Path())
	}
	return closed
}

// alive reports whether the process behind a lock file lives. If it cannot be told, it does: its lease runs out in time.
func (o *owners) alive(name string) bool {
	if name == o.name {
		return true
	}
	if name == "" || name != filepath.Base(name) {
		return false
	}
	lock := o.shared(name)
	free, err := lock.TryRLock()
	if free {
		_ = lock.Close()
	}
	return !free && !errors.Is(err, fs.ErrNotExist)
}

// clear removes the files of those that are gone.
func (o *owners) clear() {
	entries, err := os.ReadDir(o.folder)
	if err != nil {
		return // somebody who may read it will do it
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), lockSuffix) || e.Name() == o.name {
			continue
		}
		lock := o.shared(e.Name())
		if free, _ := lock.TryRLock(); free {
			_ = os.Remove(lock.Path())
			_ = lock.Close()
		}
	}
}

// shared is a lock that several may try at once without taking each other for the owner, and that makes no file.
func (o *owners) shared(name string) *flock.Flock {
	return flock.New(filepath.Join(o.folder, name), flock.SetFlag(os.O_RDONLY))
}

// exclusively runs f while no other process that opens the database does.
func (o *owners) exclusively(wait time.Duration, f func() error) error {
	const retry = 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	lock := flock.New(filepath.Join(o.folder, schemaLock), flock.SetPermissions(0o666))
	if _, err := lock.TryLockContext(ctx, retry); err != nil {
		return fmt.Errorf("lock %s, which whoever opens the database does: end the other process: %w", lock.Path(), err)
	}
	return errors.Join(f(), lock.Close())
}
