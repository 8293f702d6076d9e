package sqlite

import (
	"os"
	"time"
)

// files notices that the database was deleted or replaced while it is open: SQLite would go on writing to a file that has
// no name any more, and all would be lost when it is closed.
type files struct {
	path      string
	main, wal os.FileInfo
	logSeen   time.Time
}

// check returns errGone unless the files at the paths are those that were there first. The log, which nobody deletes by
// accident, is looked at once a second.
func (f *files) check() error {
	if err := isStill(f.path, &f.main); err != nil {
		return err
	}
	if now := time.Now(); now.Sub(f.logSeen) > time.Second {
		f.logSeen = now
		return isStill(f.path+"-wal", &f.wal)
	}
	return nil
}

// checkMain is check for reads, which may come before the log.
func (f *files) checkMain() error {
	main := f.main
	return isStill(f.path, &main)
}

func isStill(path string, known *os.FileInfo) error {
	// Looked at by name only: to open and close the file would drop the locks this process has on it.
	now, err := os.Stat(path)
	switch {
	case err != nil && os.IsNotExist(err):
		return errGone
	case err != nil:
		return err
	case *known == nil:
		*known = now
	case !os.SameFile(*known, now):
		return errGone
	}
	return nil
}
