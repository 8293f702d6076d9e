-- Lists by status, thread or origin, and pruning, without reading every run. An index has a row's key as its last column,
-- so each gives the newest first.

-- +goose Up
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_by_thread ON runs (thread) WHERE thread <> '';
CREATE INDEX runs_by_link ON runs (link_run) WHERE link_run <> '';
