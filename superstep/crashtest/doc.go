// Package crashtest has tests only: that a run of a graph which is kept in a SQLite file comes through the death of its
// process at any moment, and through damage to the file, with the result of an undisturbed run or with a clear error.
//
// The processes that die are this package's test binary, started again. What the graphs call is served by the process that
// lives, which so can count calls across deaths.
package crashtest
