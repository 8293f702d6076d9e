// Package postgres keeps runs in a PostgreSQL database (15 or later), for workers on any number of machines.
package postgres
