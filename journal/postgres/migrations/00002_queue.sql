-- Queues are columns of runs: what waits for workers, under what key it is unique, and from when on it can be taken. Nothing is
-- rewritten: runs that were there are of no queue. A priority would be one more column, between queue and ready in runs_ready.

-- +goose Up
ALTER TABLE runs
	ADD queue   bytea NOT NULL DEFAULT '',
	ADD dedup   bytea NOT NULL DEFAULT '',
	ADD program bytea,       -- stands for kind, name, version and fingerprint together; NULL for runs of no queue
	ADD ready   timestamptz; -- from when on workers may take it; NULL if no time brings that about, or it is of no queue

-- What workers take, oldest first. A program that nobody serves is a part of the index that nobody reads.
CREATE INDEX runs_ready ON runs (program, sha256(queue), ready, key) WHERE ready IS NOT NULL;

-- How many runs of a queue are held, and by whom.
CREATE INDEX runs_held ON runs (sha256(queue), holder, ready) WHERE status = 'running' AND queue <> '';

CREATE INDEX runs_by_queue ON runs (sha256(queue), key) WHERE queue <> '';
CREATE UNIQUE INDEX runs_by_dedup ON runs (sha256(dedup)) WHERE dedup <> '' AND status IN ('pending', 'running', 'suspended');

-- What was taken leaves dead entries at the front of an index, which every take has to pass. The defaults would let hundreds of
-- thousands gather in a table with a million runs that wait, or leave the indexes out.
ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on);

-- When a worker was last there for a program and a queue.
CREATE TABLE workers (
	program bytea       NOT NULL,
	queue   bytea       NOT NULL, -- SHA-256 of its name
	seen    timestamptz NOT NULL,
	PRIMARY KEY (program, queue)
);
