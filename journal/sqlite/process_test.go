package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/sqlite"
)

// childEnv makes the test binary another process that uses the file of that path.
const (
	childEnv = "PAWL_SQLITE_CHILD"
	modeEnv  = "PAWL_SQLITE_MODE"
)

// runChild is the other process. It says on its standard output what was acknowledged, and ends with its standard input.
func runChild(path string) int {
	s, err := sqlite.Open(path, sqlite.BusyTimeout(time.Minute))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Println(words...)
	}
	switch os.Getenv(modeEnv) {
	case "hold":
		_, err = s.Acquire(context.Background(), "r", journal.Claim{Owner: "child", TTL: time.Hour})
		say("held", err)
	case "write":
		for i := range children {
			go writeForever(s, fmt.Sprintf("run-%d", i), say)
		}
	case "take":
		var taken []journal.Taken
		taken, err = s.Take(context.Background(), takeUpTo(2))
		say("took", len(taken), err)
	case "enqueue":
		_, err = s.Create(context.Background(), inQueue("theirs"))
		say("made", err)
	case "send":
		_, err = s.Send(context.Background(), "r", journal.Message{Kind: journal.SignalMessage, Name: "hello"})
		say("sent", err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

const children = 30

func writeForever(s *sqlite.Store, run string, say func(...any)) {
	ctx := context.Background()
	l, err := s.Acquire(ctx, run, journal.Claim{Owner: "child", TTL: time.Hour})
	for after := l.Head; err == nil; after++ {
		if err = s.Append(ctx, l, journal.Append{After: after, Events: stepOf(after)}); err == nil {
			say("acked", run, after+1)
		}
	}
	say("error", err)
}

// child is a process that was started.
type child struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

func start(t *testing.T, path, mode string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), childEnv+"="+path, modeEnv+"="+mode)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	c.in, c.out = in, bufio.NewScanner(out)
	return c
}

func (c *child) says(t *testing.T, line string) {
	t.Helper()
	require.True(t, c.out.Scan(), "the process has ended")
	require.Equal(t, line, c.out.Text())
}

// kill ends a process as kill -9 does.
func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
}

func TestProcessesExcludeEachOther(t *testing.T) {
	path := file(t)
	s := open(t, path)
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	c := start(t, path, "hold")
	c.says(t, "held <nil>")
	_, err = s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Minute})
	var locked *journal.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, "child", locked.Owner)
	require.ErrorIs(t, s.Delete(t.Context(), "r"), journal.ErrLocked)

	// The child in turn cannot have what is held here.
	require.NoError(t, c.in.Close())
	require.NoError(t, c.Wait())
	_, err = s.Acquire(t.Context(), "r", journal.Claim{Owner: "parent", TTL: time.Minute})
	require.NoError(t, err, "a closed store holds nothing")
	c = start(t, path, "hold")
	require.True(t, c.out.Scan())
	require.Contains(t, c.out.Text(), journal.ErrLocked.Error()+" (parent")
}

// The runs of a process that was killed are free at once, and are told to be, and its lock file is cleared away.
func TestKillFreesLeases(t *testing.T) {
	path := file(t)
	s := open(t, path)
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	c := start(t, path, "hold")
	c.says(t, "held <nil>")
	look := func() journal.Run {
		r, err := s.Load(t.Context(), "r")
		require.NoError(t, err)
		p, err := s.List(t.Context(), journal.Query{})
		require.NoError(t, err)
		require.Equal(t, []journal.Run{r}, p.Runs)
		require.Equal(t, journal.Running, r.Status)
		return r
	}
	r := look()
	require.Equal(t, "child", r.Owner)
	require.Greater(t, time.Until(r.Until), 30*time.Minute)
	c.kill(t)
	r = look()
	require.Empty(t, r.Owner)
	require.Zero(t, r.Until)

	l, err := s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Minute})
	require.NoError(t, err)
	require.EqualValues(t, 2, l.Token)
	require.NoError(t, add(t, s, l, 1))

	open(t, path)
	entries, err := os.ReadDir(path + "-owners")
	require.NoError(t, err)
	require.Len(t, entries, 3, "two stores' locks, and that of the schema")
}

// A store whose process is killed has all that it acknowledged, without a gap, while another process uses the file.
func TestKillLosesNothing(t *testing.T) {
	path := file(t)
	s := open(t, path, sqlite.BusyTimeout(time.Minute))
	for i := range children {
		_, err := s.Create(t.Context(), newRun(fmt.Sprintf("run-%d", i)))
		require.NoError(t, err)
	}
	mine, after := held(t, s, "mine"), int64(1)
	const kills = 5
	for range kills {
		acked := untilKilled(t, path, func() {
			require.NoError(t, add(t, s, mine, after))
			after++
		})
		for run, head := range acked {
			events := read(t, s, run)
			assert.GreaterOrEqual(t, len(events), head, run)
			for i, e := range events {
				require.EqualValues(t, i+1, e.Seq)
			}
		}
		assert.Len(t, read(t, s, "mine"), int(after))
	}
	require.NoError(t, s.Close())
	var result string
	require.NoError(t, attach(t, path).QueryRow("PRAGMA integrity_check").Scan(&result))
	require.Equal(t, "ok", result)
}

// untilKilled runs a writing process for a while, and does something meanwhile. It returns what was acknowledged of each run.
func untilKilled(t *testing.T, path string, meanwhile func()) map[string]int {
	t.Helper()
	c := start(t, path, "write")
	acked := map[string]int{}
	read := make(chan struct{})
	begun := make(chan struct{})
	go func() {
		defer close(read)
		once := sync.OnceFunc(func() { close(begun) })
		defer once()
		for c.out.Scan() {
			var run string
			var head int
			if _, err := fmt.Sscanf(c.out.Text(), "acked %s %d", &run, &head); err != nil {
				// The last line may be cut off.
				assert.False(t, strings.HasPrefix(c.out.Text(), "error"), c.out.Text())
				continue
			}
			acked[run] = head
			if len(acked) == children {
				once()
			}
		}
	}()
	<-begun
	for end := time.Now().Add(time.Duration(50+rand.N(100)) * time.Millisecond); time.Now().Before(end); {
		meanwhile()
	}
	require.NoError(t, c.Process.Kill())
	<-read
	_ = c.Wait()
	require.Len(t, acked, children)
	return acked
}

// A message of another process wakes who watches the run, and one of this process does so at once.
func TestWatchSeesOtherProcesses(t *testing.T) {
	path := file(t)
	s := open(t, path, sqlite.WatchEvery(5*time.Millisecond))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	changed, stop := s.Watch("r")
	defer stop()
	others, stopOthers := s.Watch("another")
	defer stopOthers()

	start(t, path, "send").says(t, "sent <nil>")
	<-changed
	messages, err := s.Inbox(t.Context(), "r", 0)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Equal(t, "hello", messages[0].Name)

	_, err = s.Send(t.Context(), "r", journal.Message{Name: "mine"})
	require.NoError(t, err)
	require.Len(t, changed, 1, "told before the send was acknowledged")
	<-changed
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, changed, "and not told again")
	require.Empty(t, others)
}
