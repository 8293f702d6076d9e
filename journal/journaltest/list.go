package journaltest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pawl-go/pawl/journal"
)

func listRules() []rule {
	return []rule{
		{"an empty store has an empty page", func(s *subject) {
			assert.Equal(s.t, journal.Page{}, s.list(journal.Query{}))
		}},
		{"the newest run comes first, and each record is what Load returns", listOrder},
		{"each filter restricts, and several do together", listFilters},
		{"several statuses are an or", listStatuses},
		{"a page has Limit runs, and 100 if that is 0", listLimit},
		{"the last page has no Next, even if it is full", listLast},
		{"cursors give each run once, whatever is made or deleted meanwhile", listStable},
		{"cursors work with filters", listFilteredPages},
		{"a cursor that is none is an error", func(s *subject) {
			_, err := s.lister().List(s.t.Context(), journal.Query{Cursor: "'; nonsense"})
			require.Error(s.t, err)
			assert.NotErrorIs(s.t, err, journal.ErrUnavailable, "another time would not help")
		}},
	}
}

func (s *subject) lister() journal.Lister { return able[journal.Lister](s) }

func (s *subject) list(q journal.Query) journal.Page {
	s.t.Helper()
	page, err := s.lister().List(s.t.Context(), q)
	require.NoError(s.t, err)
	return page
}

// found are the ids that a query lists.
func (s *subject) found(q journal.Query) []string {
	s.t.Helper()
	return runIDs(s.list(q).Runs)
}

func runIDs(runs []journal.Run) []string {
	list := make([]string, 0, len(runs))
	for _, r := range runs {
		list = append(list, r.ID)
	}
	return list
}

// pages are the ids that a query lists, page after page; between is called between two.
func (s *subject) pages(q journal.Query, between func()) []string {
	s.t.Helper()
	var all []string
	for {
		page := s.list(q)
		require.LessOrEqual(s.t, len(page.Runs), q.Limit)
		all = append(all, runIDs(page.Runs)...)
		if page.Next == "" {
			return all
		}
		require.Len(s.t, page.Runs, q.Limit, "only the last page is short")
		q.Cursor = page.Next
		between()
	}
}

// names are the ids of runs that were made one after the other, newest first.
func names(first, n int) []string {
	list := make([]string, 0, n)
	for i := range n {
		list = append(list, name(first+i))
	}
	slices.Reverse(list)
	return list
}

func (s *subject) createMany(first, n int) {
	s.t.Helper()
	for i := range n {
		s.create(name(first + i))
	}
}

func listOrder(s *subject) {
	s.createMany(0, 12)
	_, err := s.store.Create(s.t.Context(), journal.NewRun{Run: full(name(12)), Events: started()})
	require.NoError(s.t, err)
	s.append(s.acquire(name(3), "a"), 1, step(1), end(journal.Checkpoint))
	s.suspend(s.acquire(name(5), "a"), 1, noon())
	page := s.list(journal.Query{})
	assert.Equal(s.t, names(0, 13), runIDs(page.Runs))
	for _, r := range page.Runs {
		assert.Equal(s.t, s.load(r.ID), r)
	}
}

func listFilters(s *subject) {
	for i, r := range []journal.Run{
		{Kind: journal.GraphRun, Name: "x", Thread: "t1", Queue: "q1"},
		{Kind: journal.WorkflowRun, Name: "x", Thread: "t1", Link: journal.Link{Kind: journal.RetryOf, Run: "p"}},
		{Kind: journal.GraphRun, Name: "y", Thread: "t2", Link: journal.Link{Kind: journal.ChildOf, Run: "p"}, Queue: "q1"},
		{Kind: journal.GraphRun, Name: "x'%", Thread: "T1"},
	} {
		r.ID = name(i)
		_, err := s.store.Create(s.t.Context(), journal.NewRun{Run: r, Events: started()})
		require.NoError(s.t, err)
	}
	for _, c := range []struct {
		q    journal.Query
		want []string
	}{
		{journal.Query{}, names(0, 4)},
		{journal.Query{Kind: journal.GraphRun}, []string{name(3), name(2), name(0)}},
		{journal.Query{Name: "x"}, names(0, 2)},
		{journal.Query{Name: "x'%"}, names(3, 1)},
		{journal.Query{Name: "%"}, []string{}},
		{journal.Query{Thread: "t1"}, names(0, 2)},
		{journal.Query{Queue: "q1"}, []string{name(2), name(0)}},
		{journal.Query{Queue: "q1", Name: "x"}, names(0, 1)},
		{journal.Query{Queue: "Q1"}, []string{}},
		{journal.Query{LinkedTo: "p"}, names(1, 2)},
		{journal.Query{LinkedTo: "p", Kind: journal.GraphRun}, names(2, 1)},
		{journal.Query{Name: "x", Thread: "t1", Kind: journal.GraphRun}, names(0, 1)},
		{journal.Query{Name: "x", Thread: "t2"}, []string{}},
		{journal.Query{Status: []journal.Status{journal.Pending}, LinkedTo: "p", Name: "y"}, names(2, 1)},
	} {
		assert.Equal(s.t, c.want, s.found(c.q), "%+v", c.q)
	}
}

func listStatuses(s *subject) {
	s.create("pending")
	s.hold("running")
	s.suspend(s.hold("suspended"), 1, noon())
	for _, kind := range []journal.Kind{journal.RunComplete, journal.RunError, journal.RunCancelled, journal.RunContinued} {
		s.append(s.hold(string(terminals()[kind])), 1, end(kind))
	}
	all := []journal.Status{
		journal.Continued, journal.Cancelled, journal.Failed, journal.Completed, journal.Suspended, journal.Running, journal.Pending,
	}
	for i, status := range all {
		assert.Equal(s.t, []string{string(status)}, s.found(journal.Query{Status: []journal.Status{status}}))
		both := journal.Query{Status: []journal.Status{all[0], status, status}}
		assert.Len(s.t, s.found(both), min(i+1, 2))
	}
	assert.Len(s.t, s.found(journal.Query{Status: all}), len(all))
	assert.Empty(s.t, s.found(journal.Query{Status: []journal.Status{"nonsense"}}))
}

func listLimit(s *subject) {
	s.createMany(0, 105)
	assert.Equal(s.t, names(102, 3), s.found(journal.Query{Limit: 3}))
	assert.Equal(s.t, names(5, 100), s.found(journal.Query{}))
	assert.Len(s.t, s.found(journal.Query{Limit: 1000}), 105)
}

func listLast(s *subject) {
	s.createMany(0, 6)
	assert.Empty(s.t, s.list(journal.Query{Limit: 6}).Next)
	first := s.list(journal.Query{Limit: 3})
	require.NotEmpty(s.t, first.Next)
	second := s.list(journal.Query{Limit: 3, Cursor: first.Next})
	assert.Equal(s.t, names(0, 3), runIDs(second.Runs))
	assert.Empty(s.t, second.Next)
}

func listStable(s *subject) {
	s.createMany(0, 20)
	made := 20
	all := s.pages(journal.Query{Limit: 3}, func() {
		s.createMany(made, 2)
		made += 2
	})
	assert.Equal(s.t, names(0, 20), all)
	if d, ok := s.store.(journal.Deleter); ok {
		pages := 0
		all = s.pages(journal.Query{Limit: 4}, func() { // the last run of the first page, which its cursor may be made of
			if pages++; pages == 1 {
				require.NoError(s.t, d.Delete(s.t.Context(), name(made-4)))
			}
		})
		assert.Equal(s.t, names(0, made), all)
	}
}

func listFilteredPages(s *subject) {
	var want []string
	for i := range 20 {
		n := begun(name(i))
		if i%3 == 0 {
			n.Run.Name = "third"
			want = append(want, name(i))
		}
		_, err := s.store.Create(s.t.Context(), n)
		require.NoError(s.t, err)
	}
	slices.Reverse(want)
	for limit := 1; limit < 9; limit++ {
		assert.Equal(s.t, want, s.pages(journal.Query{Name: "third", Limit: limit}, func() {}))
	}
}

func deleteRules() []rule {
	return []rule{
		{"a deleted run is gone with its events and messages", deleteGone},
		{"an id is free again after that, and an old lease does not write to the new run", deleteFree},
		{"runs linked to it stay", deleteLinked},
		{"a held run is a LockedError, a lapsed one is not", deleteHeld},
		{ruleUnknown, func(s *subject) {
			s.notFound("nobody", s.deleter().Delete(s.t.Context(), "nobody"))
		}},
		{"Prune deletes ended runs that changed before a time", pruneEnded},
		{"Prune deletes runs of the statuses it is given, and no others", pruneStatuses},
		{"Prune deletes nothing that is held", pruneHeld},
	}
}

func (s *subject) deleter() journal.Deleter { return able[journal.Deleter](s) }

func (s *subject) remove(run string) {
	s.t.Helper()
	require.NoError(s.t, s.deleter().Delete(s.t.Context(), run))
}

func (s *subject) prune(want int, before time.Time, statuses ...journal.Status) {
	s.t.Helper()
	n, err := s.deleter().Prune(s.t.Context(), before, statuses...)
	require.NoError(s.t, err)
	assert.Equal(s.t, want, n)
}

func deleteGone(s *subject) {
	for _, run := range []string{"free", "over", "other"} {
		lease := s.hold(run, steps(1, 5)...)
		s.send(run, signal("a", "", "1"))
		if run == "over" {
			s.append(lease, 6, end(journal.RunComplete))
			continue
		}
		s.release(lease)
	}
	before := s.picture("other")
	for _, run := range []string{"free", "over"} {
		s.remove(run)
		s.absent(run)
		_, err := s.read(run, 0)
		s.notFound(run, err)
		_, err = s.store.Inbox(s.t.Context(), run, 0)
		s.notFound(run, err)
		s.notFound(run, s.deleter().Delete(s.t.Context(), run))
	}
	s.unchanged("other", before)
}

func deleteFree(s *subject) {
	old := s.holdFor("r", short, steps(1, 3)...)
	s.send("r", signal("a", "k", "1"))
	s.lapse(old)
	s.remove("r")
	s.notFound("r", s.try(old, 4, step(4)))
	lease := s.hold("r")
	assert.Equal(s.t, stored(0, started()...), s.events("r", 0))
	assert.Empty(s.t, s.inbox("r", 0))
	assert.EqualValues(s.t, 1, s.send("r", signal("a", "k", "2")).Seq)
	s.refused("r", journal.ErrFenced, s.try(old, 1, step(4)))
	_, err := s.store.Renew(s.t.Context(), old, 0)
	s.refused("r", journal.ErrFenced, err)
	s.append(lease, 1, step(1))
}

func deleteLinked(s *subject) {
	s.create("parent")
	n := begun("child", step(1))
	n.Run.Link = journal.Link{Kind: journal.ChildOf, Run: "parent"}
	_, err := s.store.Create(s.t.Context(), n)
	require.NoError(s.t, err)
	before := s.picture("child")
	s.remove("parent")
	s.unchanged("child", before)
}

func deleteHeld(s *subject) {
	lease := s.hold("r")
	before := s.picture("r")
	s.locked(lease, s.deleter().Delete(s.t.Context(), "r"))
	s.unchanged("r", before)
	lapsed := s.holdFor("lapsed", short)
	s.lapse(lapsed)
	s.remove("lapsed")
}

func pruneEnded(s *subject) {
	for kind := range terminals() {
		s.create(string(kind), end(kind))
	}
	s.create("pending")
	s.suspend(s.hold("suspended"), 1, noon())
	s.prune(0, s.load(string(journal.RunComplete)).Created.Add(-time.Second))
	wait(s.t.Context(), short)
	s.create("later", end(journal.RunComplete))
	s.prune(4, s.load("later").Updated)
	s.absent(string(journal.RunComplete))
	s.load("later")
	s.load("pending")
	s.load("suspended")
	s.prune(1, time.Now().Add(time.Hour))
	s.prune(0, time.Now().Add(time.Hour))
}

func pruneStatuses(s *subject) {
	s.create("completed", end(journal.RunComplete))
	s.create("failed", end(journal.RunError))
	s.create("pending")
	s.suspend(s.hold("suspended"), 1, noon())
	later := time.Now().Add(time.Hour)
	s.prune(2, later, journal.Failed, journal.Pending)
	s.absent("failed")
	s.absent("pending")
	s.load("completed")
	s.prune(1, later, journal.Suspended)
	s.prune(0, later, journal.Running, journal.Cancelled)
	s.load("completed")
}

func pruneHeld(s *subject) {
	s.hold("held")
	lease := s.hold("suspended")
	s.append(lease, 1, end(journal.RunSuspended))
	s.lapse(s.holdFor("lapsed", short))
	s.prune(1, time.Now().Add(time.Hour), journal.Running, journal.Suspended)
	s.load("held")
	s.load("suspended")
	s.absent("lapsed")
}
