//go:build !race

package crashtest_test

const (
	killStride   = 1
	leastPoints  = 300
	rowStride    = 1
	columnStride = 1
	fileFlips    = 400
	forgedStride = 1
)
