// Package sqlite keeps runs in one SQLite file: the embedded default.
//
//	db, err := sqlite.Open("pawl.db")
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	r, err := superstep.NewRunner(g, superstep.Config{Store: db})
//
// The file may be used by several processes of one machine at once. What is acknowledged is on the disk: the write-ahead log
// is synced at every commit, and what several runs write at the same time shares one. A run whose process dies can be taken
// up at once by another, without waiting for its lease to run out.
//
// Beside the file pawl.db stand pawl.db-wal and pawl.db-shm, which are SQLite's and belong to it, and the folder
// pawl.db-owners, in which each process that has it open locks a file of its own. A copy of a database that is in use is
// made with SQLite's own means (VACUUM INTO, or its backup), not by copying the file.
//
// The file must be on a local disk: on a network file system locks do not work as they should. For runs that several
// machines share, use a server.
//
// # Schema
//
// A file of an earlier release is migrated when it is opened, one of a later release is refused. To change the schema, add
// the next numbered file to migrations; never change one that was released. Then write a file with the release before it
// (journaltest.WriteFixture), keep it in testdata, and add it to the fixtures of TestStore.
package sqlite
