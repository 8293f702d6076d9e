package postgres_test

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
	"github.com/pawl-go/pawl/journal/postgres"
)

// childEnv makes the test binary another process that uses the schema of that name.
const (
	childEnv    = "PAWL_POSTGRES_CHILD"
	childDSNEnv = "PAWL_POSTGRES_CHILD_DSN"
	modeEnv     = "PAWL_POSTGRES_MODE"
)

// runChild is the other process. It says on its standard output what was acknowledged, and ends with its standard input.
func runChild(schema string) int {
	s, err := postgres.Open(context.Background(), os.Getenv(childDSNEnv), postgres.Schema(schema))
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

func writeForever(s *postgres.Store, run string, say func(...any)) {
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

func start(t *testing.T, schema, mode string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), childEnv+"="+schema, childDSNEnv+"="+dsn(t), modeEnv+"="+mode)
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

func TestProcessesExcludeEachOther(t *testing.T) {
	s := open(t, newSchema(t))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	c := start(t, s.Schema(), "hold")
	c.says(t, "held <nil>")
	_, err = s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Minute})
	var locked *journal.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, "child", locked.Owner)
	require.ErrorIs(t, s.Delete(t.Context(), "r"), journal.ErrLocked)

	require.NoError(t, c.in.Close())
	require.NoError(t, c.Wait())
	require.NotNil(t, acquireSoon(t, s, "r", "parent"), "a closed store holds nothing")

	// The child in turn cannot have what is held here.
	c = start(t, s.Schema(), "hold")
	require.True(t, c.out.Scan())
	require.Contains(t, c.out.Text(), journal.ErrLocked.Error()+" (parent")
}

// acquireSoon acquires a run as soon as the server has noticed that its holder is gone: with the next look at its socket.
func acquireSoon(t *testing.T, s journal.Store, run, owner string) (l journal.Lease) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		l, err = s.Acquire(t.Context(), run, journal.Claim{Owner: owner, TTL: time.Minute})
		if err != nil {
			assert.ErrorIs(t, err, journal.ErrLocked)
		}
		return err == nil
	}, 5*time.Second, time.Millisecond)
	return l
}

// The runs of a process that was killed are free at once, and are told to be, and not only after their leases have run out.
func TestKillFreesLeases(t *testing.T) {
	s := open(t, newSchema(t))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	c := start(t, s.Schema(), "hold")
	c.says(t, "held <nil>")
	look := func() journal.Run {
		r, err := s.Load(t.Context(), "r")
		require.NoError(t, err)
		require.Equal(t, journal.Running, r.Status)
		return r
	}
	r := look()
	require.Equal(t, "child", r.Owner)
	require.Greater(t, time.Until(r.Until), 30*time.Minute)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	killed := time.Now()
	require.Eventually(t, func() bool { r := look(); return r.Owner == "" && r.Until.IsZero() }, 5*time.Second, time.Millisecond, "it is told to be free")
	l := acquireSoon(t, s, "r", "next")
	t.Logf("free %v after the kill", time.Since(killed))
	require.NoError(t, add(t, s, l, 1))
}

// A process that is killed has left all that it acknowledged, without a gap, while another process uses the schema.
func TestKillLosesNothing(t *testing.T) {
	durable(t)
	s := open(t, newSchema(t))
	for i := range children {
		_, err := s.Create(t.Context(), newRun(fmt.Sprintf("run-%d", i)))
		require.NoError(t, err)
	}
	mine, after := held(t, s, "mine"), int64(1)
	const kills = 3
	for range kills {
		acked := untilKilled(t, s.Schema(), func() {
			require.NoError(t, add(t, s, mine, after))
			after++
		})
		for run, head := range acked {
			l := acquireSoon(t, s, run, "heir") // fences off what may be on its way still
			assert.GreaterOrEqual(t, l.Head, int64(head), run)
			whole(t, s, run, l.Head)
			_, err := s.Renew(t.Context(), l, 0)
			require.NoError(t, err)
		}
		whole(t, s, "mine", after)
	}
}

// whole holds that a journal has so many events, without a gap.
func whole(t *testing.T, s journal.Store, run string, head int64) {
	t.Helper()
	events := read(t, s, run)
	require.Len(t, events, int(head), run)
	for i, e := range events {
		require.EqualValues(t, i+1, e.Seq)
	}
}

// untilKilled runs a writing process for a while, and does something meanwhile. It returns what was acknowledged of each run.
func untilKilled(t *testing.T, schema string, meanwhile func()) map[string]int {
	t.Helper()
	c := start(t, schema, "write")
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

// A message of another process wakes who watches the run at once, and not by looking.
func TestWatchHearsOtherProcesses(t *testing.T) {
	s := open(t, newSchema(t), postgres.WatchEvery(time.Hour))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	changed, stop := s.Watch("r")
	defer stop()
	others, stopOthers := s.Watch("another")
	defer stopOthers()
	start(t, s.Schema(), "send").says(t, "sent <nil>")
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

// Whoever is not told looks.
func TestWatchLooks(t *testing.T) {
	s := open(t, newSchema(t), postgres.WatchEvery(5*time.Millisecond))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	changed, stop := s.Watch("r")
	defer stop()
	exec1(t, s.Schema(), `INSERT INTO inbox SELECT key, 1, nextval('numbers'), 'signal', 'x', '', now(), '', 0 FROM runs`)
	<-changed
}

// What was sent while nobody listened is looked for as soon as somebody does again.
func TestWatchOutlastsItsSession(t *testing.T) {
	s := open(t, newSchema(t), postgres.WatchEvery(time.Hour))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	changed, stop := s.Watch("r")
	defer stop()
	pid := s.SessionPid()
	exec1(t, s.Schema(), `INSERT INTO inbox SELECT key, 1, nextval('numbers'), 'signal', 'x', '', now(), '', 0 FROM runs`)
	exec1(t, s.Schema(), "SELECT pg_terminate_backend($1)", pid)
	<-changed
	start(t, s.Schema(), "hold").says(t, "held <nil>")
}

// Two processes that send to each other's runs do not wait for each other for good.
func TestNoDeadlock(t *testing.T) {
	schema := newSchema(t)
	stores := []*postgres.Store{open(t, schema), open(t, schema)}
	const runs, each = 8, 15
	var leases []journal.Lease
	for i := range runs {
		leases = append(leases, held(t, stores[i%2], fmt.Sprint(i)))
	}
	var all sync.WaitGroup
	for i, l := range leases {
		all.Go(func() {
			for after := int64(1); after <= each; after++ {
				assert.NoError(t, add(t, stores[i%2], l, after))
			}
		})
		for side, s := range stores {
			all.Go(func() {
				for n := range each {
					_, err := s.Send(t.Context(), fmt.Sprint((i*3+n)%runs), journal.Message{Name: "x", Key: fmt.Sprint(i, n)})
					assert.NoError(t, err)
					_, err = s.Create(t.Context(), newRun(fmt.Sprint("new", n, side*i)))
					if err != nil {
						assert.ErrorIs(t, err, journal.ErrExists)
					}
				}
			})
		}
	}
	all.Wait()
	for i := range runs {
		whole(t, stores[0], fmt.Sprint(i), each+1)
	}
	require.Zero(t, ask[int](t, schema, "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()"))
}
