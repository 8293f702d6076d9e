package durable

import (
	"fmt"
	"regexp"
	"strconv"
)

// RetryID is what the retry of a run is called if nobody names it: the run's id with -retry behind it, then -retry-2. So
// retrying a run twice makes one run.
func RetryID(id string) string {
	m := retryIDs.FindStringSubmatch(id)
	if m == nil {
		return id + "-retry"
	}
	n := 1
	if m[2] != "" {
		n, _ = strconv.Atoi(m[2]) // at most nine digits
	}
	return fmt.Sprintf("%s-retry-%d", m[1], n+1)
}

var retryIDs = regexp.MustCompile(`(?s)^(.*)-retry(?:-([1-9][0-9]{0,8}))?$`)
