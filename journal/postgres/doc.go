// Package postgres keeps runs in a PostgreSQL database, for workers on any number of machines.
//
//	db, err := postgres.Open(ctx, "postgres://pawl_user@db.example:5432/app")
//	if err != nil {
//		return err
//	}
//	defer db.Close()
//	r, err := superstep.NewRunner(g, superstep.Config{Store: db})
//
// It needs PostgreSQL 15 or later, and a direct connection: a pooler between that gives out sessions by the transaction
// (PgBouncer's transaction mode) can carry none of what follows.
//
// # Durability and speed
//
// What is acknowledged is committed with synchronous_commit on, or at the stricter or other level that the administrator has
// chosen; only off is not taken. What several runs write at the same time shares a commit, and a lone append is one statement.
// The lease is checked by that statement, under a lock that a new lease has to wait for.
//
// A store has a connection that writes, one that shows that it lives, one that takes runs, if it is a worker's, and a pool for
// reading (pool_max_conns). Count on three and a few for each process when you set max_connections.
//
// # Queues
//
// A run that waits for workers is found by an index that begins with its program and its queue, and that has only runs which are
// ready, or will be at a time that is known. So neither runs that wait for a message nor those of programs that nobody serves cost
// the others anything, however many there are. Take passes over runs that are locked. With Held, the takers of a queue count one
// after the other.
//
// What was taken leaves dead entries in that index until the server's autovacuum has removed them, for which the table has settings
// of its own. Keep it switched on, and transactions that last for hours away from the database.
//
// Workers hear of new work from the server (LISTEN, NOTIFY), except of what becomes ready by time, for which they have to ask. A
// notification makes those who commit wait for each other, so it is sent only if a run has become ready, never for an append.
//
// # Leases
//
// Created, Updated and the ends of leases are the server's time: machines whose clocks differ agree on who holds a run. Do not
// compare them with a clock that may be wrong.
//
// Each open store holds an advisory lock, under a number that its leases name. When its process dies the server lets go of the
// lock with the connection, and its runs can be taken at once. Of a machine that is cut off the server notices so within half a
// minute, or when the lease runs out, if that is sooner. The store itself may go on for a while then: what it writes is refused,
// since the run has a new lease. A store that has only lost its connection makes another one and has its leases again, except
// those that were taken meanwhile. Take, with Orphans, gives it two seconds for that: when the server is started again, all
// stores have lost their connections, and none of their processes has died.
//
// # Errors
//
// Lost connections, timeouts, a server that starts, stops, may only be read, or has no connections, memory or disk left, are
// *journal.UnavailableError. A write whose acknowledgement was lost says that its outcome is unknown. A call waits for a server
// that is away, see Timeout; all connections are made again by themselves. All else is the server's error, with where it
// happened and what to do. No error has the DSN's password.
//
// # Roles
//
// The schema is made and migrated by Open or by Migrate: several processes may do so at once, and a schema of a later release is
// refused. The programs that use it need less. As a role that may create schemas in the database, call Migrate, and then grant
//
//	GRANT USAGE ON SCHEMA pawl TO pawl_user;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON pawl.runs TO pawl_user;
//	GRANT SELECT, INSERT, DELETE ON pawl.events, pawl.inbox TO pawl_user;
//	GRANT SELECT, INSERT, UPDATE ON pawl.workers TO pawl_user;
//	GRANT SELECT ON pawl.pawl_schema TO pawl_user;
//	GRANT USAGE ON SEQUENCE pawl.numbers TO pawl_user;
//
// A program that only looks (Load, Events, Inbox, List) needs
//
//	GRANT USAGE ON SCHEMA pawl TO pawl_reader;
//	GRANT SELECT ON pawl.runs, pawl.events, pawl.inbox, pawl.pawl_schema TO pawl_reader;
//
// A release that adds a table needs its grant from then on: grant all of these again behind each migration.
//
// # Several stores in one database
//
// Each schema is a store of its own, with runs, queues and roles of its own. Give its name to everybody who opens it:
//
//	db, err := postgres.Open(ctx, dsn, postgres.Schema("team_a"))
//
// It is made where it is not there. Who may not make schemas needs one that an administrator has made,
//
//	CREATE SCHEMA team_a AUTHORIZATION team_a_owner;
//
// and Migrate with that name and role. In the grants above, write team_a for pawl. A schema is moved to another name by
// ALTER SCHEMA while no process has it open, and removed, with all that is in it, by DROP SCHEMA team_a CASCADE.
//
// # Changing the schema
//
// Add the next numbered file to migrations; never change one that was released. Have the release before it write what
// journaltest.WriteFixture writes into a schema named fixture, and keep that, without comments and lines of psql's:
//
//	pg_dump -n fixture --inserts --rows-per-insert=500 --no-owner --no-privileges
//
// The suite reads it with the new release.
package postgres
