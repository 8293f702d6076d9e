//go:build race

package crashtest_test

// All takes several times as long, and races are found in fewer cases: some are left out.
const (
	killStride   = 2
	leastPoints  = 140
	rowStride    = 23
	columnStride = 5
	fileFlips    = 40
	forgedStride = 17
)
