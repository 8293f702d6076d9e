-- Queues from which workers take runs, and keys that runs have while they have not ended.

-- +goose Up
ALTER TABLE runs ADD COLUMN queue TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN dedup TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN program BLOB;  -- of a run of a queue: the first half of a SHA-256 over what can run it
ALTER TABLE runs ADD COLUMN ready INTEGER; -- of a run of a queue: from when on it may be taken; NULL if not by time

-- What is not ready by time is not in it: runs of no queue, ended ones, and those that only a message wakes.
CREATE INDEX runs_by_ready ON runs (program, queue, ready) WHERE ready IS NOT NULL;
CREATE INDEX runs_running ON runs (queue) WHERE queue <> '' AND status = 'running';
CREATE UNIQUE INDEX runs_by_dedup ON runs (dedup)
	WHERE dedup <> '' AND status NOT IN ('completed', 'failed', 'cancelled', 'continued');

-- When workers were last there for a program and queue.
CREATE TABLE announced (
	program BLOB    NOT NULL,
	queue   TEXT    NOT NULL,
	time    INTEGER NOT NULL,
	PRIMARY KEY (program, queue)
) WITHOUT ROWID;

-- How often runs of a queue have become ready other than by time, so that a watcher can ask for what is new.
CREATE TABLE queues (
	name    TEXT    NOT NULL PRIMARY KEY,
	changes INTEGER NOT NULL
) WITHOUT ROWID;
