// Package bench has only benchmarks: of Pawl on PostgreSQL beside the bare driver, and beside DBOS. It is a module of its own, so
// that nobody else depends on DBOS.
package bench
