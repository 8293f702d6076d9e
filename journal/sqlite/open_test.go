package sqlite_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// fails opens a file that must be refused, with an error that names it and says what to do.
func fails(t *testing.T, path string, parts ...string) error {
	t.Helper()
	s, err := sqlite.Open(path, sqlite.BusyTimeout(50*time.Millisecond))
	require.Error(t, err)
	require.Nil(t, s)
	require.ErrorContains(t, err, "pawl: ")
	for _, part := range append(parts, path) {
		require.ErrorContains(t, err, part)
	}
	return err
}

func TestOpenRefusesWhatIsNoDatabase(t *testing.T) {
	path := file(t)
	text := []byte(strings.Repeat("not a database\n", 1000))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	err := fails(t, path, "no SQLite database", "give the path of another")
	require.ErrorIs(t, err, journal.ErrCorrupt)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, after, "the file is untouched")
	require.NoDirExists(t, path+"-owners")
}

func TestOpenRefusesAnotherProgramsDatabase(t *testing.T) {
	path := file(t)
	_, err := attach(t, path).Exec("CREATE TABLE theirs (a)")
	require.NoError(t, err)
	fails(t, path, "another program's database", "path of a new file")
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	path := file(t)
	require.NoError(t, open(t, path).Close())
	_, err := attach(t, path).Exec("INSERT INTO pawl_schema (version_id, is_applied) VALUES (7, 1)")
	require.NoError(t, err)
	fails(t, path, "written by a newer release: schema 7, this release knows 3", "upgrade the program")
}

func TestOpenRefusesAMissingFolder(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "none")
	fails(t, filepath.Join(folder, "runs.db"), "the folder "+folder+" does not exist", "create it")
	require.NoDirExists(t, folder)
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	fails(t, t.TempDir(), "not a file")
	fails(t, "", "path of a file", "journal/memory")
	fails(t, ":memory:", "path of a file", "journal/memory")
}

func TestOpenRefusesALockedFile(t *testing.T) {
	path := file(t)
	require.NoError(t, open(t, path).Close())
	tx, err := attach(t, path).Begin()
	require.NoError(t, err)
	err = fails(t, path, "another process has had the database locked for 50ms", "end it")
	require.ErrorIs(t, err, journal.ErrUnavailable)
	require.NoError(t, tx.Rollback())
	open(t, path)
}

// A path is data: nothing in it is an option, and links lead to the same files beside the database.
func TestPathsOfAnyKind(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"a b.db", "a?mode=ro&x.db", "a#b.db", "100%41.db", "файл.db", "'\"; DROP TABLE runs.db", "no extension"} {
		path := filepath.Join(folder, name)
		s := open(t, path)
		held(t, s, "r")
		require.NoError(t, s.Close())
		require.FileExists(t, path)
		require.Len(t, read(t, open(t, path), "r"), 1)
	}
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		assert.NotEqual(t, "a", e.Name())
	}

	link := filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(filepath.Join(folder, "a b.db"), link))
	s := open(t, link)
	require.Equal(t, filepath.Join(folder, "a b.db"), s.Path())
	require.NoDirExists(t, link+"-owners")

	t.Chdir(folder)
	require.Equal(t, filepath.Join(folder, "relative.db"), open(t, "relative.db").Path())
}

// Every connection syncs its commits, whatever the driver's default is.
func TestSettingsOfConnections(t *testing.T) {
	s := open(t, file(t))
	for name, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "wal_autocheckpoint": "1000", "page_size": "4096"} {
		writer, reader, err := s.Settings(name)
		require.NoError(t, err)
		assert.Equal(t, want, writer, name)
		assert.Equal(t, want, reader, name)
	}
}

// A store leaves the database and nothing else: no log, which would mean that a connection is still open, and no lock.
func TestCloseLeavesOnlyTheDatabase(t *testing.T) {
	path := file(t)
	s := open(t, path)
	l := held(t, s, "r")
	require.NoError(t, add(t, s, l, 1))
	_, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "again")
	require.NoFileExists(t, path+"-wal")
	locks, err := filepath.Glob(path + "-owners/*.lock")
	require.NoError(t, err)
	require.Empty(t, locks)
}

func TestCallsBehindCloseSaySo(t *testing.T) {
	s := open(t, file(t))
	l := held(t, s, "r")
	_, stop := s.Watch("r")
	require.NoError(t, s.Close())
	stop()
	s.Watch("r")
	s.WatchQueue("q")
	ctx := context.Background()
	_, create := s.Create(ctx, newRun("x"))
	_, load := s.Load(ctx, "r")
	_, acquire := s.Acquire(ctx, "r", journal.Claim{TTL: time.Second})
	_, renew := s.Renew(ctx, l, time.Second)
	_, give := s.Renew(ctx, l, 0)
	_, send := s.Send(ctx, "r", journal.Message{})
	_, inbox := s.Inbox(ctx, "r", 0)
	_, list := s.List(ctx, journal.Query{})
	_, prune := s.Prune(ctx, time.Now())
	_, take := s.Take(ctx, journal.Take{})
	_, stranded := s.TakeStranded(ctx, journal.Take{}, 0)
	announce := s.Announce(ctx, "q", nil)
	var events error
	for _, events = range s.Events(ctx, "r", 0) {
	}
	for i, err := range []error{
		create, load, acquire, renew, give, send, inbox, list, prune, events, take, stranded, announce, add(t, s, l, 1), s.Delete(ctx, "r"),
	} {
		require.ErrorIs(t, err, fs.ErrClosed, "call %d", i)
		require.ErrorContains(t, err, s.Path())
		require.ErrorContains(t, err, "open it again")
	}
}

// Close waits for what is under way, and what it has waited for is written.
func TestCloseWaitsForWrites(t *testing.T) {
	s := open(t, file(t))
	l := held(t, s, "r")
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.At("before the transaction", func() error { close(reached); <-goOn; return nil })
	written, closed := make(chan error, 1), make(chan error, 1)
	go func() { written <- add(t, s, l, 1) }()
	<-reached
	go func() { closed <- s.Close() }()
	select {
	case <-closed:
		t.Fatal("closed with a write under way")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	require.NoError(t, <-written)
	require.NoError(t, <-closed)
	require.Len(t, read(t, open(t, s.Path()), "r"), 2)
}

// Several processes may open a new file at the same time.
func TestManyOpenANewFileAtOnce(t *testing.T) {
	path := file(t)
	errs := make(chan error)
	const many = 8
	for range many {
		go func() {
			s, err := sqlite.Open(path, sqlite.BusyTimeout(time.Minute))
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	var all []error
	for range many {
		all = append(all, <-errs)
	}
	require.NoError(t, errors.Join(all...))
}

// TestStore reads what a file of an earlier schema has, and goes on with it.
func TestAnEarlierSchemaIsMigrated(t *testing.T) {
	const newest = 3
	for had := 1; had < newest; had++ {
		path := unpacked(t, fmt.Sprintf("schema%d", had))
		var before, after int
		db := attach(t, path)
		version := "SELECT max(version_id) FROM pawl_schema"
		require.NoError(t, db.QueryRow(version).Scan(&before))
		require.NoError(t, open(t, path).Close())
		require.NoError(t, db.QueryRow(version).Scan(&after))
		require.Equal(t, []int{had, newest}, []int{before, after})
	}
}

func unpacked(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".db.gz"))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	path := file(t)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}
