//go:build race

package crashtest_test

// Finding races needs fewer cases, and each takes ten times as long.
const (
	rowStride = 23
	fileFlips = 40
)
