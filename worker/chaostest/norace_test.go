//go:build !race

package chaostest

const raced = false
