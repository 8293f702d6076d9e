package classifier

import (
	"strings"
	"time"
)

// isURL reports whether s is a URL and nothing else.
func isURL(s string) bool {
	return urlLen(s) > 0 && !strings.ContainsAny(s, " \t\n")
}

// urlLen returns the length of the URL at the start of s, without the punctuation behind it, or 0.
func urlLen(s string) int {
	const longestScheme = 16
	i := 0
	for i < len(s) && i < longestScheme && (isWord(s[i]) || s[i] == '+') {
		i++
	}
	if !strings.HasPrefix(s[i:], "://") {
		return 0
	}
	if i += len("://"); strings.HasPrefix(s[i:], "[") { // an IPv6 host
		i++
		for i < len(s) && (isHex(s[i]) || s[i] == ':') {
			i++
		}
		i += len(s[i:min(i+1, len(s))]) // its closing bracket
	}
	for i < len(s) && s[i] > ' ' && strings.IndexByte("\"'`<>()[]{}", s[i]) < 0 {
		i++
	}
	return len(strings.TrimRight(s[:i], ".,;:!?"))
}

// timeLen returns the length of the date or time at the start of s, or 0.
func timeLen(s string) int {
	for _, layout := range [...]string{time.RFC1123, time.RFC1123Z, time.ANSIC, time.UnixDate} {
		if len(s) >= len(layout) && layout[3] == s[3] && isWeekday(s) {
			if _, err := time.Parse(layout, s[:len(layout)]); err == nil {
				return len(layout)
			}
		}
	}
	l := shapeLen(s, "0000-00-00")
	if l == 0 {
		return shapeLen(s, "00:00:00")
	}
	if len(s) > l && (s[l] == 'T' || s[l] == ' ') {
		if clock := shapeLen(s[l+1:], "00:00"); clock > 0 {
			l += 1 + clock
			l += shapeLen(s[l:], ":00")
			l += fractionLen(s[l:])
			l += zoneLen(s[l:])
		}
	}
	return l
}

// isWeekday reports whether s starts with a short weekday.
func isWeekday(s string) bool {
	if len(s) < 3 {
		return false
	}
	switch s[:3] {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun":
		return true
	}
	return false
}

func fractionLen(s string) int {
	if len(s) < 2 || (s[0] != '.' && s[0] != ',') || !isDigit(s[1]) {
		return 0
	}
	return 1 + digitsLen(s[1:])
}

func zoneLen(s string) int {
	if len(s) > 0 && s[0] == 'Z' {
		return 1
	}
	return max(shapeLen(s, "+00:00"), shapeLen(s, "-00:00"), shapeLen(s, "+0000"), shapeLen(s, "-0000"))
}

// uuidLen returns the length of the UUID at the start of s, or 0.
func uuidLen(s string) int {
	return shapeLen(s, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")
}

// shapeLen returns the length of shape if s starts with it: 0 stands for a digit, x for a hex digit.
func shapeLen(s, shape string) int {
	if len(s) < len(shape) {
		return 0
	}
	for i := range len(shape) {
		switch c := s[i]; shape[i] {
		case '0':
			if !isDigit(c) {
				return 0
			}
		case 'x':
			if !isHex(c) {
				return 0
			}
		default:
			if c != shape[i] {
				return 0
			}
		}
	}
	return len(shape)
}

// hexLen returns the length of the hex number at the start of s: behind 0x any, else 8 digits or more, one of them no
// letter.
func hexLen(s string) int {
	start := 0
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		start = 2
	}
	i, digits := start, 0
	for i < len(s) && isHex(s[i]) {
		if isDigit(s[i]) {
			digits++
		}
		i++
	}
	switch {
	case i < len(s) && isWord(s[i]):
		return 0
	case start > 0 && i > start:
		return i
	case i >= 8 && digits > 0 && digits < i:
		return i
	}
	return 0
}

// numberLen returns the length of the number at the start of s, with its grouping, decimals, port and units, or 0 if it
// is the start of a name. Of "1.2.3x" it is "1.2": what has been looked at is used up, or the time would be quadratic.
func numberLen(s string) int {
	i, group := 0, 0
	for i < len(s) && isDigit(s[i]) {
		i += digitsLen(s[i:])
		for i+1 < len(s) && strings.IndexByte(".,:", s[i]) >= 0 && isDigit(s[i+1]) {
			group = i
			i += 1 + digitsLen(s[i+1:])
		}
		i += unitLen(s[i:])
	}
	if i < len(s) && isWord(s[i]) {
		return group
	}
	return i
}

func unitLen(s string) int {
	for _, unit := range [...]string{"ns", "us", "µs", "ms", "s", "m", "h", "d", "kB", "KB", "MB", "GB", "kb", "mb", "gb",
		"KiB", "MiB", "GiB", "k", "K", "M", "B"} {
		if strings.HasPrefix(s, unit) && (len(s) == len(unit) || !isLetter(s[len(unit)])) {
			return len(unit)
		}
	}
	return 0
}

// isID reports whether a word looks drawn at random: letters and digits mixed, and long.
func isID(s string) bool {
	letters, digits, runs := 0, 0, 0
	for i := range len(s) {
		if !isDigit(s[i]) {
			letters++
			continue
		}
		digits++
		if i == 0 || !isDigit(s[i-1]) {
			runs++
		}
	}
	if letters == 0 || digits == 0 || len(s) < 8 {
		return false
	}
	return len(s) >= 16 || digits >= 3 || runs >= 2
}

func wordLen(s string) int {
	i := 0
	for i < len(s) && isWord(s[i]) {
		i++
	}
	return i
}

func digitsLen(s string) int {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return i
}

func lettersLen(s string) int {
	i := 0
	for i < len(s) && !isDigit(s[i]) {
		i++
	}
	return i
}

func isHex(c byte) bool {
	return isDigit(c) || ('a' <= c|0x20 && c|0x20 <= 'f')
}
