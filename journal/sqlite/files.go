package sqlite

import (
	"os"
)

// files notices that the database was deleted or replaced while it is open: SQLite would go on writing to a file that has
// no name any more, and all would be lost when it is closed.
type files struct {
	path      string
	main, wal os.FileInfo
}

// check returns errGone unless the files at the paths are those that were there first. The log is only there once somebody
// has written.
func (f *files) check() error {
	return firstOf(isStill(f.path, &f.main), isStill(f.path+"-wal", &f.wal))
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

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
