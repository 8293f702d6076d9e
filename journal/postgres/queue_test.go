package postgres_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
)

// theProgram is that of newRun's runs.
func theProgram() journal.Program { return newRun("").Run.Program() }

// queued is a new run of the queue "q".
func queued(id string) journal.NewRun {
	n := newRun(id)
	n.Run.Queue = "q"
	return n
}

func enqueue(tb testing.TB, s journal.Store, ids ...string) {
	tb.Helper()
	for _, id := range ids {
		_, err := s.Create(tb.Context(), queued(id))
		require.NoError(tb, err)
	}
}

// upTo is what the workers of tests want.
func upTo(limit int) journal.Take {
	return journal.Take{
		Claim: journal.Claim{Owner: "taker", TTL: time.Hour}, Queue: "q", Programs: []journal.Program{theProgram()}, Limit: limit,
	}
}

func take(tb testing.TB, s *postgres.Store, t journal.Take) []journal.Taken {
	tb.Helper()
	taken, err := s.Take(tb.Context(), t)
	require.NoError(tb, err)
	return taken
}

// What was taken is known to the committer of its run, so that its first append is one statement.
func TestWhatIsTakenIsKnown(t *testing.T) {
	s := open(t, newSchema(t), postgres.Committers(3))
	const runs = 12
	for n := range runs {
		enqueue(t, s, fmt.Sprint(n))
	}
	taken := take(t, s, upTo(runs))
	require.Len(t, taken, runs)
	conn := attach(t, s.Schema())
	begun := 0
	s.At("before the commit", func() error {
		var n int
		err := conn.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = $1 AND state = 'idle in transaction'`, s.Schema()).Scan(&n)
		begun += n
		return err
	})
	for _, got := range taken {
		require.NoError(t, add(t, s, got.Lease, 1))
	}
	require.Zero(t, begun, "a committer has locked and read a run")
	require.Equal(t, runs, s.Leases())
}

// Nobody is given a lease that names a lock which the server does not know any more, and those of a lost session are renamed.
func TestNoTakeWithoutASession(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema, postgres.Committers(2)), open(t, schema)
	for n := range 5 {
		run := fmt.Sprint(n)
		enqueue(t, s, run)
		lock := s.Lock()
		exec1(t, schema, "SELECT pg_terminate_backend($1, 5000)", s.SessionPid())
		taken := take(t, s, upTo(5))
		require.Len(t, taken, 1)
		require.Eventually(t, func() bool { return s.Lock() != lock }, 5*time.Second, time.Millisecond)
		require.NoError(t, add(t, s, taken[0].Lease, 1))
		require.Equal(t, s.Lock(), ask[int64](t, schema, "SELECT holder FROM runs WHERE id = convert_to($1, 'UTF8')", run))
		_, err := other.Acquire(t.Context(), run, journal.Claim{Owner: "other", TTL: time.Hour})
		require.ErrorIs(t, err, journal.ErrLocked)
	}
}

// A session that is lost between a take and what the committers learn of it takes no lease with it.
func TestASessionThatIsLostWhileTaking(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema)
	held(t, s, "mine")
	enqueue(t, s, "r")
	conn := attach(t, schema)
	renamed := func(run string) (is bool, err error) {
		err = conn.QueryRow(context.Background(), "SELECT holder = $1 FROM runs WHERE id = convert_to($2, 'UTF8')", s.Lock(), run).Scan(&is)
		return is, err
	}
	s.At("behind the commit", func() error {
		s.At("", nil)
		old := s.Lock()
		_, err := conn.Exec(context.Background(), "SELECT pg_terminate_backend($1, 5000)", s.SessionPid())
		for s.Lock() == old && err == nil {
			time.Sleep(time.Millisecond)
		}
		for is := false; !is && err == nil; {
			is, err = renamed("mine")
		}
		return err
	})
	got := take(t, s, upTo(1))[0]
	require.NoError(t, add(t, s, got.Lease, 1))
	require.Eventually(t, func() bool {
		is, err := renamed("r")
		return assert.NoError(t, err) && is
	}, 5*time.Second, time.Millisecond)
}

// A store that has lost its session is not taken for dead before it could make another one.
func TestOrphansOfAStoreThatComesBack(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema), open(t, schema)
	enqueue(t, s, "r", "fails")
	mine := take(t, s, upTo(1))[0].Lease
	orphans, limited := upTo(5), upTo(5)
	orphans.Orphans = true
	limited.Held = 1
	require.Empty(t, take(t, other, limited))
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.At("before the transaction", func() error { s.At("", nil); close(reached); <-goOn; return nil })
	exec1(t, schema, "SELECT pg_terminate_backend($1, 5000)", s.SessionPid())
	resume := sync.OnceFunc(func() { close(goOn) })
	defer resume()
	<-reached // there is another session, and the lease has not been renamed
	require.Equal(t, "fails", take(t, other, orphans)[0].Run.ID)
	require.Empty(t, take(t, other, orphans))
	limited.Held = 2
	require.Empty(t, take(t, other, limited), "it is held still")
	resume()
	require.NoError(t, add(t, s, mine, 1))
	require.Eventually(t, func() bool {
		return ask[int64](t, schema, "SELECT holder FROM runs WHERE id = 'r'") == s.Lock()
	}, 5*time.Second, time.Millisecond)
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		require.Empty(t, take(t, other, orphans))
	}
	require.NoError(t, s.Close())
	require.Eventually(t, func() bool { return len(take(t, other, orphans)) == 1 }, 10*time.Second, 20*time.Millisecond)
}

// What was taken for a caller that has left is given back at once.
func TestATakeThatNobodyGot(t *testing.T) {
	s := open(t, newSchema(t), postgres.Committers(2))
	enqueue(t, s, "a", "b", "c")
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	s.At("before the commit", func() error { s.At("", nil); cancel(); <-goOn; return nil })
	_, err := s.Take(ctx, upTo(2))
	down(t, err, true)
	require.ErrorIs(t, err, context.Canceled)
	close(goOn)
	require.Eventually(t, func() bool {
		return ask[int](t, s.Schema(), "SELECT count(*) FROM runs WHERE status = 'pending' AND token > key + 1") == 2
	}, 5*time.Second, time.Millisecond)
	require.Len(t, take(t, s, upTo(5)), 3)
}

// A take of which nobody knows what came of it stops this store from nothing.
func TestATakeOfUnknownOutcome(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema), open(t, schema)
	enqueue(t, s, "r")
	s.At("behind the commit", func() error { s.At("", nil); return os.ErrDeadlineExceeded })
	_, err := s.Take(t.Context(), upTo(1))
	down(t, err, true, "take runs in")
	_, err = other.Acquire(t.Context(), "r", journal.Claim{Owner: "other", TTL: time.Hour})
	require.ErrorIs(t, err, journal.ErrLocked)
	l, err := s.Acquire(t.Context(), "r", journal.Claim{Owner: "me", TTL: time.Hour})
	require.NoError(t, err)
	require.NoError(t, add(t, s, l, 1))
}

// The store knows of what it is taking before it says of a run that nobody has it.
func TestAcquireWhileTaking(t *testing.T) {
	s := open(t, newSchema(t), postgres.Committers(2))
	for n := range 100 {
		run := fmt.Sprint(n)
		enqueue(t, s, run)
		var all sync.WaitGroup
		var taken []journal.Taken
		errs := make([]error, 4)
		all.Go(func() { taken = take(t, s, upTo(1)) })
		for i := range errs {
			all.Go(func() {
				_, errs[i] = s.Acquire(t.Context(), run, journal.Claim{Owner: fmt.Sprint(i), TTL: time.Hour})
			})
		}
		all.Wait()
		won := len(taken)
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			require.ErrorIs(t, err, journal.ErrLocked)
		}
		require.Equal(t, 1, won, "round %d", n)
	}
}

// Runs that somebody else has locked are passed over, however many there are, and those behind them are found.
func TestTakePassesOverWhatIsLocked(t *testing.T) {
	s := open(t, newSchema(t))
	const locked = 200
	for n := range locked {
		enqueue(t, s, fmt.Sprint("locked ", n))
	}
	conn := attach(t, s.Schema())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM runs FOR UPDATE")
	require.NoError(t, err)
	require.Empty(t, take(t, s, upTo(2)))
	enqueue(t, s, "a", "b", "c")
	taken := take(t, s, upTo(2))
	require.Len(t, taken, 2)
	require.Equal(t, "a", taken[0].Run.ID)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Equal(t, "locked 0", take(t, s, upTo(1))[0].Run.ID)
}

// What an owner has written before it gave the run up is in the lease of who takes it, whenever that is.
func TestTheHeadOfWhatIsTaken(t *testing.T) {
	schema := newSchema(t)
	stores := []*postgres.Store{open(t, schema), open(t, schema)}
	const runs, each = 4, 25
	for n := range runs {
		enqueue(t, stores[0], fmt.Sprint(n))
	}
	var all sync.WaitGroup
	for _, s := range append(stores, stores...) {
		all.Go(func() {
			for done := 0; done < each; {
				for _, got := range take(t, s, upTo(2)) {
					if !assert.NoError(t, add(t, s, got.Lease, got.Lease.Head), "%s at %d", got.Run.ID, got.Lease.Head) {
						return
					}
					_, err := s.Renew(t.Context(), got.Lease, 0)
					assert.NoError(t, err)
					done++
				}
			}
		})
	}
	all.Wait()
	for n := range runs {
		r, err := stores[0].Load(t.Context(), fmt.Sprint(n))
		require.NoError(t, err)
		whole(t, stores[0], r.ID, r.Head)
	}
}

// Appends tell nobody: a notification makes those who commit wait for each other. What makes a run ready is told once.
func TestOnlyWhatIsReadyIsTold(t *testing.T) {
	s := open(t, newSchema(t))
	listener := attach(t, s.Schema())
	_, err := listener.Exec(t.Context(), "LISTEN "+s.Channel())
	require.NoError(t, err)
	heard := func() (queues, runs int) {
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			n, err := listener.WaitForNotification(ctx)
			cancel()
			if err != nil {
				return queues, runs
			}
			if _, _, err := postgres.ParseCall(n.Payload); err == nil {
				queues++
				continue
			}
			runs++
		}
	}
	tells := func(wantQueues, wantRuns int, why string) {
		t.Helper()
		queues, runs := heard()
		require.Equal(t, []int{wantQueues, wantRuns}, []int{queues, runs}, why)
	}
	end := func(l journal.Lease, after int64, kind journal.Kind, due time.Time) {
		t.Helper()
		a := journal.Append{After: after, Due: due, Events: []journal.Event{{Kind: kind, Time: time.Now()}}}
		require.NoError(t, s.Append(t.Context(), l, a))
	}
	later := time.Now().Add(time.Hour)

	n := queued("claimed")
	n.Claim = journal.Claim{Owner: "me", TTL: time.Hour}
	l, err := s.Create(t.Context(), n)
	require.NoError(t, err)
	n = queued("later")
	n.Due = later
	_, err = s.Create(t.Context(), n)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), newRun("of no queue"))
	require.NoError(t, err)
	tells(0, 0, "runs that are not ready")
	enqueue(t, s, "r")
	tells(1, 0, "a new run")
	_, err = s.Create(t.Context(), queued("r"))
	require.ErrorIs(t, err, journal.ErrExists)
	require.NoError(t, add(t, s, l, 1))
	end(l, 2, journal.Checkpoint, time.Time{})
	_, err = s.Renew(t.Context(), l, 2*time.Hour)
	require.NoError(t, err)
	mine := take(t, s, upTo(1))[0].Lease
	end(mine, 1, journal.RunSuspended, later)
	_, err = s.Renew(t.Context(), mine, 0)
	require.NoError(t, err)
	tells(0, 0, "appends, leases, and runs that wait")
	for range 2 {
		_, err = s.Send(t.Context(), "r", journal.Message{Kind: journal.SignalMessage})
		require.NoError(t, err)
	}
	tells(1, 2, "the first message")
	_, err = s.Renew(t.Context(), l, 0)
	require.NoError(t, err)
	tells(1, 0, "a run that is given up")
	mine = take(t, s, upTo(1))[0].Lease
	end(mine, 2, journal.RunRequeued, time.Time{})
	tells(0, 0, "a requeued run is held still")
	_, err = s.Renew(t.Context(), mine, 0)
	require.NoError(t, err)
	tells(1, 0, "and then is not")
	end(take(t, s, upTo(1))[0].Lease, 3, journal.RunComplete, time.Time{})
	tells(0, 0, "the end of a run")
}

// Whoever may have missed something is told, and others' words are heard once.
func TestQueueWatchersOutlastTheirSession(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema), open(t, schema)
	changed, stop := s.WatchQueue("q")
	defer stop()
	enqueue(t, s, "mine")
	require.Len(t, changed, 1, "told before the run was acknowledged")
	<-changed
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, changed, "and not told again")
	enqueue(t, other, "others")
	<-changed
	time.Sleep(30 * time.Millisecond)
	require.Empty(t, changed)
	exec1(t, schema, "SELECT pg_terminate_backend($1)", s.SessionPid())
	<-changed
}

// Announcements are written once a second at most.
func TestAnnouncementsAreRare(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema), open(t, schema)
	seen := func() (version string) {
		return ask[string](t, schema, "SELECT string_agg(xmin || ' ' || xmax || ' ' || seen, ',' ORDER BY program) FROM workers")
	}
	programs := []journal.Program{theProgram(), {Name: "b"}, theProgram()}
	require.NoError(t, s.Announce(t.Context(), "q", programs))
	before := seen()
	for range 5 {
		require.NoError(t, s.Announce(t.Context(), "q", programs))
		require.NoError(t, other.Announce(t.Context(), "q", programs))
	}
	require.Equal(t, before, seen())
	exec1(t, schema, "UPDATE workers SET seen = seen - interval '1100 ms'")
	before = seen()
	require.NoError(t, other.Announce(t.Context(), "q", programs))
	require.NotEqual(t, before, seen())
	require.Equal(t, 2, ask[int](t, schema, "SELECT count(*) FROM workers WHERE seen > clock_timestamp() - interval '1 s'"))
}

// Many processes may announce, post, create, take and end at once without waiting for each other for good.
func TestNoDeadlockOfQueues(t *testing.T) {
	schema := newSchema(t)
	stores := []*postgres.Store{open(t, schema), open(t, schema, postgres.Committers(2))}
	const runs, each = 8, 12
	var leases []journal.Lease
	for i := range runs {
		leases = append(leases, held(t, stores[i%2], fmt.Sprint(i)))
	}
	programs := make([]journal.Program, 0, runs)
	for i := range runs {
		programs = append(programs, journal.Program{Name: fmt.Sprint(i)})
	}
	programs = append(programs, theProgram())
	var all sync.WaitGroup
	for i, l := range leases {
		s := stores[i%2]
		all.Go(func() {
			for after := int64(1); after <= each; after++ {
				a := journal.Append{After: after, Events: stepOf(after)}
				for k := range 3 {
					to := (i*5 + int(after)*3 + k*k + 1) % runs
					a.Outbox = append(a.Outbox, journal.Letter{Run: fmt.Sprint(to), Message: journal.Message{Key: fmt.Sprint(i, after)}})
				}
				assert.NoError(t, s.Append(t.Context(), l, a))
			}
		})
		all.Go(func() {
			for n := range each {
				r := queued(fmt.Sprint("new", i, n))
				r.Run.Dedup = fmt.Sprint((n*7 + i) % 3)
				if i%2 == 1 {
					r.Run.ID = fmt.Sprint("new", runs-i, each-n, "b")
				}
				if _, err := s.Create(t.Context(), r); err != nil {
					assert.ErrorIs(t, err, journal.ErrDuplicate)
				}
				assert.NoError(t, s.Announce(t.Context(), "q", programs[i:]))
			}
		})
		all.Go(func() {
			for range each {
				w := upTo(3)
				w.Held, w.Orphans = 5, i%2 == 0
				for _, got := range take(t, s, w) {
					a := journal.Append{After: 1, Events: []journal.Event{{Kind: journal.RunComplete}}}
					assert.NoError(t, s.Append(t.Context(), got.Lease, a))
				}
			}
		})
	}
	all.Wait()
	for i := range runs {
		whole(t, stores[0], fmt.Sprint(i), each+1)
	}
	require.Zero(t, ask[int](t, schema, "SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()"))
}

// Names of queues may be of any length, too.
func TestALongNameOfAQueue(t *testing.T) {
	s := open(t, newSchema(t))
	name := strings.Repeat("\x00q\xff", 50_000)
	n := newRun("r")
	n.Run.Queue = name
	_, err := s.Create(t.Context(), n)
	require.NoError(t, err)
	w := upTo(1)
	w.Queue, w.Held, w.Orphans = name, 1, true
	require.NoError(t, s.Announce(t.Context(), name, w.Programs))
	require.Equal(t, name, take(t, s, w)[0].Run.Queue)
	page, err := s.List(t.Context(), journal.Query{Queue: name})
	require.NoError(t, err)
	require.Len(t, page.Runs, 1)
}

// A caller may ask for as many as there are numbers.
func TestTakeWithoutALimitWorthTheName(t *testing.T) {
	s := open(t, newSchema(t))
	enqueue(t, s, "a", "b")
	w := upTo(math.MaxInt)
	w.Held = math.MaxInt
	w.Claim.TTL = math.MaxInt64
	require.Len(t, take(t, s, w), 2)
	enqueue(t, s, "c")
	w.Held = -1
	require.Len(t, take(t, s, w), 1)
	stranded, err := s.TakeStranded(t.Context(), w, math.MaxInt64)
	require.NoError(t, err)
	require.Empty(t, stranded)
	n := queued("later")
	n.Due = time.Now().Add(time.Hour)
	_, err = s.Create(t.Context(), n)
	require.NoError(t, err)
	stranded, err = s.TakeStranded(t.Context(), w, math.MinInt64)
	require.NoError(t, err)
	require.Empty(t, stranded)
}

// Whoever waits for runs is told also of one of which nobody knows whether it was made.
func TestWhatMayHaveBeenMadeIsTold(t *testing.T) {
	s := open(t, newSchema(t))
	changed, stop := s.WatchQueue("q")
	defer stop()
	s.At("behind the commit", func() error { s.At("", nil); return os.ErrDeadlineExceeded })
	_, err := s.Create(t.Context(), queued("r"))
	down(t, err, true)
	require.Len(t, changed, 1)
}
