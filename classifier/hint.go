package classifier

import "time"

// longestHint is the longest wait that is taken for a time; longer ones come from an overflow.
const longestHint = 100 * 365 * 24 * time.Hour

// RetryHint returns the longest wait that an error in err's tree asks for through RetryHinter: a server's Retry-After, a
// breaker's remaining open time. Waits that are no time (zero, negative, over a hundred years) are ignored.
func RetryHint(err error) (wait time.Duration, ok bool) {
	for e := range Tree(err) {
		hinter, is := e.(RetryHinter)
		if !is {
			continue
		}
		if hint := hintOf(hinter); hint > wait {
			wait = hint
		}
	}
	return wait, wait > 0
}

func hintOf(hinter RetryHinter) time.Duration {
	hint, _ := ask(func() time.Duration {
		if wait, ok := hinter.RetryHint(); ok && wait <= longestHint {
			return wait
		}
		return 0
	})
	return hint
}

// RetryRefused reports whether an error in err's tree says, through RetryRefuser, that its server does not want the
// request again.
func RetryRefused(err error) bool {
	for e := range Tree(err) {
		if refuser, is := e.(RetryRefuser); is {
			if refused, _ := ask(refuser.RetryRefused); refused {
				return true
			}
		}
	}
	return false
}
