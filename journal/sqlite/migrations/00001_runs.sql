-- Times are microseconds since 1970 in UTC; NULL is none.

-- +goose Up
CREATE TABLE runs (
	key         INTEGER PRIMARY KEY AUTOINCREMENT, -- stands for the id in other tables; never used twice
	id          TEXT    NOT NULL UNIQUE,
	kind        TEXT    NOT NULL,
	name        TEXT    NOT NULL,
	version     TEXT    NOT NULL,
	fingerprint TEXT    NOT NULL,
	thread      TEXT    NOT NULL,
	link_kind   TEXT    NOT NULL,
	link_run    TEXT    NOT NULL,
	link_step   INTEGER NOT NULL,
	created     INTEGER NOT NULL,
	status      TEXT    NOT NULL,
	updated     INTEGER NOT NULL,
	due         INTEGER,
	checkpoint  INTEGER NOT NULL,
	token       INTEGER NOT NULL, -- of the latest lease, or one more if that was given up
	owner       TEXT    NOT NULL,
	holder      TEXT    NOT NULL, -- the lock file that the owner's process holds while it lives
	until       INTEGER
);

-- A row has the events of one append: n of them, numbered from seq.
CREATE TABLE events (
	run INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	n   INTEGER NOT NULL,
	row BLOB    NOT NULL,
	UNIQUE (run, seq)
);

CREATE TABLE inbox (
	id      INTEGER PRIMARY KEY AUTOINCREMENT, -- grows over all runs, so that a watcher can ask for what is new
	run     INTEGER NOT NULL,
	seq     INTEGER NOT NULL,
	kind    TEXT    NOT NULL,
	name    TEXT    NOT NULL,
	key     TEXT    NOT NULL,
	time    INTEGER,
	payload BLOB,
	sum     INTEGER NOT NULL, -- CRC-32C over the rest of the message
	UNIQUE (run, seq)
);
CREATE UNIQUE INDEX inbox_by_key ON inbox (run, key) WHERE key <> '';

-- The largest token of a run that was deleted. Tokens of later runs begin behind it, so that no lease of a run that is gone
-- is good for another of its id.
CREATE TABLE floor (token INTEGER NOT NULL);
INSERT INTO floor (token) VALUES (0);
