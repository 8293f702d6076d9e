-- What users choose (ids, names, keys) may be any bytes and of any length: bytea, and hashes where an index needs them.

-- +goose Up
CREATE SEQUENCE numbers; -- keys of runs, tokens of leases and ids of messages: no two are ever the same

CREATE TABLE runs (
	key         bigint      PRIMARY KEY, -- stands for the id in other tables
	id          bytea       NOT NULL,
	hash        bytea       NOT NULL GENERATED ALWAYS AS (sha256(id)) STORED UNIQUE,
	kind        bytea       NOT NULL,
	name        bytea       NOT NULL,
	version     bytea       NOT NULL,
	fingerprint bytea       NOT NULL,
	thread      bytea       NOT NULL,
	link_kind   bytea       NOT NULL,
	link_run    bytea       NOT NULL,
	link_step   bigint      NOT NULL,
	created     timestamptz NOT NULL,
	status      text        NOT NULL,
	updated     timestamptz NOT NULL,
	due         timestamptz,
	checkpoint  bigint      NOT NULL,
	token       bigint      NOT NULL, -- of the latest lease, or a later one that nobody has if that was given up
	owner       bytea       NOT NULL,
	holder      bigint,               -- the advisory lock that the owner's process holds while its session lives
	until       timestamptz
) WITH (fillfactor = 80);             -- leases are renewed in place

-- Lists by status, thread or origin, and pruning, without reading every run.
CREATE INDEX runs_by_status ON runs (status, key);
CREATE INDEX runs_by_thread ON runs (sha256(thread), key) WHERE thread <> '';
CREATE INDEX runs_by_link ON runs (sha256(link_run), key) WHERE link_run <> '';

-- A row has the events of one append: n of them, numbered from seq.
CREATE TABLE events (
	run  bigint  NOT NULL,
	seq  bigint  NOT NULL,
	n    integer NOT NULL,
	data bytea   NOT NULL,
	PRIMARY KEY (run, seq)
);

CREATE TABLE inbox (
	run     bigint NOT NULL,
	seq     bigint NOT NULL,
	id      bigint NOT NULL, -- grows within a run, also if that is deleted and made again
	kind    bytea  NOT NULL,
	name    bytea  NOT NULL,
	key     bytea  NOT NULL,
	time    timestamptz,
	payload bytea,
	sum     bigint NOT NULL, -- CRC-32C over the rest of the message
	PRIMARY KEY (run, seq)
);
CREATE UNIQUE INDEX inbox_by_key ON inbox (run, sha256(key)) WHERE key <> '';
