//go:build race

package chaostest

// All takes several times as long with -race, and the workers are the same: fewer runs do.
const raced = true
