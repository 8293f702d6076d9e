//go:build !race

package crashtest_test

const (
	rowStride = 1
	fileFlips = 400
)
