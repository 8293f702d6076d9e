package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/postgres"
)

// down holds that a call failed for a reason that may pass, and said what to do.
func down(t *testing.T, err error, unknown bool, parts ...string) {
	t.Helper()
	var e *journal.UnavailableError
	require.ErrorAs(t, err, &e)
	require.Equal(t, unknown, e.Unknown, "%v", err)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}

// One transaction of many writers after the other is cut off by the server's sudden end. What was acknowledged is there,
// without a gap, what was not may be, and the store goes on by itself.
func TestServerRestart(t *testing.T) {
	own(t)
	durable(t)
	s := open(t, newSchema(t))
	const writers, restarts = 50, 2
	var wrote, unknown, known atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range writers {
		run := fmt.Sprint(i)
		l := held(t, s, run)
		all.Go(func() {
			head := int64(1)
			for {
				select {
				case <-stop:
					whole(t, s, run, head)
					return
				default:
				}
				err := add(t, s, l, head)
				var e *journal.UnavailableError
				switch {
				case err == nil:
					head++
					wrote.Add(1)
					continue
				case errors.As(err, &e) && e.Unknown:
					unknown.Add(1)
				case e != nil:
					known.Add(1)
				default:
					assert.NoError(t, err)
					return
				}
				// As the contract says: fence the write off, and see what is there.
				next, err := s.Acquire(t.Context(), run, journal.Claim{Owner: "me", TTL: time.Hour})
				if err != nil {
					assert.ErrorIs(t, err, journal.ErrUnavailable)
					continue
				}
				if e.Unknown {
					assert.Contains(t, []int64{head, head + 1}, next.Head, run)
				} else {
					assert.Equal(t, head, next.Head, "it was said not to be written")
				}
				l, head = next, next.Head
			}
		})
	}
	for range restarts {
		for from := wrote.Load(); wrote.Load() < from+200; {
			time.Sleep(time.Millisecond)
		}
		lock := s.Lock()
		require.NoError(t, theServer.own.Control("restart", "-m", "immediate"))
		require.Eventually(t, func() bool { return s.Lock() != lock }, 20*time.Second, time.Millisecond)
	}
	for from := wrote.Load(); wrote.Load() < from+200; {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	all.Wait()
	t.Logf("%d appends, of unknown outcome %d, refused %d", wrote.Load(), unknown.Load(), known.Load())
	require.Positive(t, unknown.Load())
}

// While the server is away calls wait, and then fail; once it is back all goes on.
func TestServerAway(t *testing.T) {
	own(t)
	schema := newSchema(t)
	s := open(t, schema, postgres.Timeout(time.Second))
	l := held(t, s, "r")
	require.NoError(t, theServer.own.Control("stop", "-m", "fast"))
	back := sync.OnceFunc(func() { require.NoError(t, theServer.own.Control("start")) })
	t.Cleanup(back)

	err := add(t, s, l, 1) // on a connection that the server has closed
	require.ErrorIs(t, err, journal.ErrUnavailable)
	down(t, add(t, s, l, 1), false, s.Place(), "cannot be reached", "check that it runs")
	_, err = s.Load(t.Context(), "r")
	down(t, err, false, "cannot be reached")
	_, err = s.List(t.Context(), journal.Query{})
	down(t, err, false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.Equal(t, context.DeadlineExceeded, s.Append(ctx, l, journal.Append{After: 1, Events: stepOf(1)}), "nothing was begun")
	_, err = postgres.Open(t.Context(), dsn(t), postgres.Schema(schema))
	down(t, err, false, "open journal in", "cannot be reached")

	back()
	require.Eventually(t, func() bool { return add(t, s, l, 1) == nil }, 10*time.Second, 10*time.Millisecond)
	require.Len(t, read(t, s, "r"), 2)
}

// A connection that was lost while nobody used it costs nobody anything.
func TestIdleConnectionsMayEnd(t *testing.T) {
	s := open(t, newSchema(t))
	l := held(t, s, "r")
	_, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	killAll(t, s)
	time.Sleep(1100 * time.Millisecond) // longer than a connection is trusted
	require.NoError(t, add(t, s, l, 1))
	require.Len(t, read(t, s, "r"), 2)
}

// killAll ends all connections of a store.
func killAll(t *testing.T, s *postgres.Store) {
	t.Helper()
	conn := attach(t, "public")
	_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = $1", s.Schema())
	require.NoError(t, err)
}

// A session that is lost is followed by another, and the leases name its lock, so nobody else can take the runs.
func TestLeasesOutlastTheirSession(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema)
	l, taken := held(t, s, "r"), held(t, s, "taken")
	lock := s.Lock()
	other := open(t, schema)
	reached, goOn := make(chan struct{}), make(chan struct{})
	s.At("before the transaction", func() error { s.At("", nil); close(reached); <-goOn; return nil })
	exec1(t, schema, "SELECT pg_terminate_backend($1, 5000)", s.SessionPid())
	<-reached // the committer has been told of the new lock, and has not renamed the leases yet
	require.NotEqual(t, lock, s.Lock())
	next, err := other.Acquire(t.Context(), "taken", journal.Claim{Owner: "other", TTL: time.Hour})
	require.NoError(t, err, "for the others the holder was gone")
	close(goOn)
	require.NoError(t, add(t, s, l, 1))
	require.ErrorIs(t, add(t, s, taken, 1), journal.ErrFenced)
	require.NoError(t, add(t, other, next, 1))
	_, err = other.Acquire(t.Context(), "r", journal.Claim{Owner: "other", TTL: time.Hour})
	require.ErrorIs(t, err, journal.ErrLocked)
	require.Equal(t, s.Lock(), ask[int64](t, schema, "SELECT holder FROM runs WHERE id = 'r'"))
	require.Equal(t, other.Lock(), ask[int64](t, schema, "SELECT holder FROM runs WHERE id = 'taken'"))
}

// Nobody is given a lease that names a lock which the server does not know any more.
func TestNoLeaseWithoutASession(t *testing.T) {
	schema := newSchema(t)
	s := open(t, schema)
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	for range 5 {
		lock := s.Lock()
		exec1(t, schema, "SELECT pg_terminate_backend($1, 5000)", s.SessionPid())
		l, err := s.Acquire(t.Context(), "r", journal.Claim{Owner: "me", TTL: time.Hour})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return s.Lock() != lock }, 5*time.Second, time.Millisecond)
		require.NoError(t, add(t, s, l, l.Head))
		require.Equal(t, s.Lock(), ask[int64](t, schema, "SELECT holder FROM runs"))
		_, err = open(t, schema).Acquire(t.Context(), "r", journal.Claim{Owner: "other", TTL: time.Hour})
		require.ErrorIs(t, err, journal.ErrLocked)
	}
}

// Whoever is taking a run over is waited for: the append that comes meanwhile is refused.
func TestTheFenceHoldsWhileALeaseIsTaken(t *testing.T) {
	s := open(t, newSchema(t))
	for _, many := range []int{1, 3} {
		var leases []journal.Lease
		for i := range many {
			leases = append(leases, held(t, s, fmt.Sprint(many, i)))
		}
		conn := attach(t, s.Schema())
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "UPDATE runs SET token = nextval('numbers') WHERE id = convert_to($1, 'UTF8')", leases[0].Run)
		require.NoError(t, err)
		reached, goOn := make(chan struct{}), make(chan struct{})
		s.At("before the transaction", func() error { s.At("", nil); close(reached); <-goOn; return nil })
		errs := make([]chan error, many)
		for i, l := range leases {
			errs[i] = make(chan error, 1)
			go func() { errs[i] <- add(t, s, l, 1) }()
		}
		<-reached
		time.Sleep(20 * time.Millisecond) // until the others wait, too
		close(goOn)
		select {
		case err := <-errs[0]:
			t.Fatal("it did not wait", err)
		case <-time.After(50 * time.Millisecond):
		}
		require.NoError(t, tx.Commit(t.Context()))
		require.ErrorIs(t, <-errs[0], journal.ErrFenced)
		for i := 1; i < many; i++ {
			require.NoError(t, <-errs[i])
		}
		require.Len(t, read(t, s, leases[0].Run), 1)
	}
}

// A process that stops in a transaction holds the runs of others up for two seconds, not for as long as it stops.
func TestAStoppedWriter(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema), open(t, schema)
	l := held(t, s, "r")
	goOn := make(chan struct{})
	s.At("before the commit", func() error { s.At("", nil); <-goOn; return nil })
	stopped := make(chan error, 1)
	go func() {
		_, err := s.Renew(t.Context(), l, time.Hour)
		stopped <- err
	}()
	require.Eventually(t, func() bool {
		return ask[int](t, schema, "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'") > 0
	}, 5*time.Second, time.Millisecond)
	_, err := other.Send(t.Context(), "r", journal.Message{Name: "x"})
	require.NoError(t, err)
	close(goOn)
	require.ErrorIs(t, <-stopped, journal.ErrUnavailable)
	_, err = s.Renew(t.Context(), l, time.Hour)
	require.NoError(t, err)
}

// What the server says of the world around it may pass; all else is a fault of the call.
func TestErrorsOfTheServer(t *testing.T) {
	s := open(t, newSchema(t))
	l := held(t, s, "r")
	for code, says := range map[string]string{
		"53100": "free some space", "53200": "out of memory", "57014": "", "58030": "", "25006": "connect to the primary", "08006": "",
		"42501": "grant it", "23514": "",
	} {
		exec1(t, s.Schema(), `CREATE OR REPLACE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN RAISE EXCEPTION USING ERRCODE = ''`+code+`'', MESSAGE = ''made up''; END';
			CREATE OR REPLACE TRIGGER no BEFORE INSERT ON events EXECUTE FUNCTION no()`)
		for _, kind := range []journal.Kind{journal.StepDone, journal.Checkpoint} { // one statement, and a transaction
			err := s.Append(t.Context(), l, journal.Append{After: 1, Events: []journal.Event{{Kind: kind}}})
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, s.Place())
			e, ok := errors.AsType[*pgconn.PgError](err)
			require.True(t, ok, "the server's own error can be had")
			require.Equal(t, code, e.Code)
			if code == "42501" || code == "23514" {
				require.NotErrorIs(t, err, journal.ErrUnavailable)
				continue
			}
			down(t, err, false)
		}
	}
	exec1(t, s.Schema(), "DROP TRIGGER no ON events")
	require.NoError(t, add(t, s, l, 1))
}

// A write that the server refuses for itself fails alone, not those that share its transaction.
func TestAWriteThatFailsAlone(t *testing.T) {
	for _, kind := range []journal.Kind{journal.StepDone, journal.Checkpoint} {
		s := open(t, newSchema(t))
		good, bad := held(t, s, "good"), held(t, s, "bad")
		exec1(t, s.Schema(), `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no''; END';
			CREATE TRIGGER no BEFORE INSERT ON events FOR EACH ROW WHEN (new.run = `+
			fmt.Sprint(ask[int64](t, s.Schema(), "SELECT key FROM runs WHERE id = 'bad'"))+`) EXECUTE FUNCTION no()`)
		reached, goOn := make(chan struct{}), make(chan struct{})
		s.At("before the transaction", func() error { s.At("", nil); close(reached); <-goOn; return nil })
		errs := map[string]chan error{"first": make(chan error, 1), "good": make(chan error, 1), "bad": make(chan error, 1)}
		go func() { errs["first"] <- s.Delete(t.Context(), "none") }()
		<-reached
		a := journal.Append{After: 1, Events: []journal.Event{{Kind: kind}}}
		go func() { errs["bad"] <- s.Append(t.Context(), bad, a) }()
		go func() { errs["good"] <- s.Append(t.Context(), good, a) }()
		time.Sleep(20 * time.Millisecond)
		close(goOn)
		assert.ErrorIs(t, <-errs["first"], journal.ErrNotFound)
		assert.NoError(t, <-errs["good"])
		err := <-errs["bad"]
		assert.ErrorContains(t, err, "no")
		assert.NotErrorIs(t, err, journal.ErrUnavailable)
		assert.Len(t, read(t, s, "good"), 2)
		assert.Len(t, read(t, s, "bad"), 1)
	}
}

// A lease that could not be given up is this store's to give again, and nobody else's before its time.
func TestALeaseThatCouldNotBeGivenUp(t *testing.T) {
	schema := newSchema(t)
	s, other := open(t, schema), open(t, schema)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"outage": t.Context(), "context": cancelled} {
		l := held(t, s, name)
		s.At("before the commit", func() error { s.At("", nil); return os.ErrDeadlineExceeded })
		_, err := s.Renew(ctx, l, 0)
		require.Error(t, err)
		s.At("", nil)
		_, err = other.Acquire(t.Context(), name, journal.Claim{TTL: time.Minute})
		require.ErrorIs(t, err, journal.ErrLocked)
		next, err := s.Acquire(t.Context(), name, journal.Claim{Owner: "next", TTL: time.Minute})
		require.NoError(t, err)
		require.Greater(t, next.Token, l.Token)
		require.ErrorIs(t, add(t, s, l, 1), journal.ErrFenced)
		_, err = s.Acquire(t.Context(), name, journal.Claim{TTL: time.Minute})
		require.ErrorIs(t, err, journal.ErrLocked, "the next one is held")
	}
}

// A lease whose caller has left before it got it is nobody's.
func TestALeaseThatNobodyGot(t *testing.T) {
	s := open(t, newSchema(t))
	_, err := s.Create(t.Context(), newRun("r"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	goOn := make(chan struct{})
	s.At("before the commit", func() error { cancel(); <-goOn; return nil })
	_, err = s.Acquire(ctx, "r", journal.Claim{Owner: "gone", TTL: time.Hour})
	down(t, err, true)
	require.ErrorIs(t, err, context.Canceled)
	s.At("", nil)
	close(goOn)
	l, err := s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Hour})
	require.NoError(t, err)
	require.NoError(t, add(t, s, l, 1))
}

// After a commit of which nobody knows, what is there is read before anything is written.
func TestACommitOfUnknownOutcome(t *testing.T) {
	for _, kind := range []journal.Kind{journal.StepDone, journal.Checkpoint} {
		t.Run(string(kind), func(t *testing.T) {
			s := open(t, newSchema(t))
			l := held(t, s, "r")
			a := journal.Append{After: 1, Events: []journal.Event{{Kind: kind, Name: "x"}}}
			s.At("behind the commit", func() error { s.At("", nil); return os.ErrDeadlineExceeded })
			down(t, s.Append(t.Context(), l, a), true)
			require.NoError(t, s.Append(t.Context(), l, a), "the same again is a success")
			require.NoError(t, add(t, s, l, 2))
			require.Len(t, read(t, s, "r"), 3)
			_, err := s.Acquire(t.Context(), "r", journal.Claim{TTL: time.Minute})
			require.ErrorIs(t, err, journal.ErrLocked, "the lease is held still")
		})
	}
}

// A server that does not answer costs a call its time, and a write has an unknown outcome then.
func TestAServerThatHangs(t *testing.T) {
	s := open(t, newSchema(t), postgres.Timeout(time.Second))
	l := held(t, s, "r")
	conn := attach(t, s.Schema())
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM runs FOR UPDATE")
	require.NoError(t, err)
	down(t, add(t, s, l, 1), true, "has not answered in 1s")
	_, err = s.Renew(t.Context(), l, time.Minute)
	down(t, err, false, "has not answered")
	require.Len(t, read(t, s, "r"), 1)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Eventually(t, func() bool { return add(t, s, l, 1) == nil }, 5*time.Second, time.Millisecond)
	require.Len(t, read(t, s, "r"), 2)
}

// Leases that nobody has given up do not pile up.
func TestLeasesThatHaveRunOutAreForgotten(t *testing.T) {
	s := open(t, newSchema(t))
	const runs = 1500
	leases := make([]journal.Lease, runs)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			n := newRun(fmt.Sprint(i))
			n.Claim = journal.Claim{TTL: time.Microsecond}
			var err error
			leases[i], err = s.Create(t.Context(), n)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.Less(t, s.Leases(), runs)
	require.NoError(t, add(t, s, leases[0], 1))
}

// Runs go from one taker to the next while the server is ended and started again. Each is written by one at a time, and comes to
// its end. No store that comes back has lost what it held to those that were there before it.
func TestTakersOutlastRestarts(t *testing.T) {
	own(t)
	durable(t)
	schema := newSchema(t)
	stores := []*postgres.Store{open(t, schema), open(t, schema, postgres.Committers(2))}
	const runs, steps, restarts = 150, 10, 3
	for n := range runs {
		enqueue(t, stores[0], fmt.Sprint(n))
	}
	kept := held(t, stores[1], "kept")
	var done, failed, fenced, again atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer over.Store(true)
	work := func(s *postgres.Store, got journal.Taken) error {
		if got.Was == journal.Running {
			again.Add(1)
		}
		for after := got.Lease.Head; after <= steps; after++ {
			if err := add(t, s, got.Lease, after); err != nil {
				return err
			}
		}
		last := journal.Append{After: max(got.Lease.Head, steps+1), Events: []journal.Event{{Kind: journal.RunComplete}}}
		return s.Append(context.Background(), got.Lease, last)
	}
	for n := range 8 {
		s := stores[n%2]
		all.Go(func() {
			for !over.Load() {
				w := upTo(3)
				w.Claim, w.Orphans, w.Held = journal.Claim{Owner: fmt.Sprint(n), TTL: time.Second}, true, 20
				taken, err := s.Take(context.Background(), w)
				if err != nil {
					assert.ErrorIs(t, err, journal.ErrUnavailable)
				}
				for _, got := range taken {
					switch err := work(s, got); {
					case err == nil:
						done.Add(1)
					case errors.Is(err, journal.ErrUnavailable):
						failed.Add(1)
					default:
						assert.ErrorIs(t, err, journal.ErrFenced)
						fenced.Add(1)
					}
				}
				if len(taken) == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for n := range int64(restarts) {
		require.Eventually(t, func() bool { return done.Load() >= (n+1)*runs/(restarts+2) }, 20*time.Second, time.Millisecond)
		require.NoError(t, theServer.own.Control("restart", "-m", "immediate"))
	}
	require.Eventually(t, func() bool {
		return ask[int](t, schema, "SELECT count(*) FROM runs WHERE status <> 'completed' AND id <> 'kept'") == 0
	}, 20*time.Second, 20*time.Millisecond)
	over.Store(true)
	all.Wait()
	t.Logf("%d writes and takes failed, %d owners were fenced off, %d runs were taken again", failed.Load(), fenced.Load(), again.Load())
	for n := range runs {
		whole(t, stores[0], fmt.Sprint(n), steps+2)
	}
	require.NoError(t, add(t, stores[1], kept, 1))
}
