package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal/sqlite"
)

// A file that may only be read is refused by Open. The superuser may write to any, so the thread that opens it gives that up.
func TestAReadOnlyFile(t *testing.T) {
	path := file(t)
	require.NoError(t, open(t, path).Close())
	require.NoError(t, os.Chmod(path, 0o444))
	for _, folder := range []string{filepath.Dir(filepath.Dir(path)), filepath.Dir(path), path + "-owners"} {
		require.NoError(t, os.Chmod(folder, 0o777))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nobody = 65534
	user, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
	require.Zero(t, errno)
	s, err := sqlite.Open(path)
	_, _, errno = syscall.RawSyscall(syscall.SYS_SETFSUID, user, 0, 0)
	require.Zero(t, errno)
	require.Nil(t, s)
	down(t, err, false, path, "may only be read", "let this user write to both")
	entries, err := os.ReadDir(path + "-owners")
	require.NoError(t, err)
	require.Len(t, entries, 1, "only the schema's lock is left")
}
