// Package chaostest has the test that breaks workers, their store and their connections while they run, and reads every
// journal afterwards.
package chaostest
