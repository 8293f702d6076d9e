package classifier

import (
	"net/netip"
	"strings"
)

// What the parts that differ between two instances of a failure are replaced by.
const (
	aNumber = "<n>"
	aTime   = "<time>"
	aHex    = "<hex>"
	anID    = "<id>"
	aURL    = "<url>"
)

// normalizer rewrites a text from left to right, one piece a step.
type normalizer struct {
	text string
	pos  int
	out  []byte
	// unclosed holds, for each kind of quote, up to where it is known that none is closed. Without it, many opening
	// quotes would each search the whole text.
	unclosed [3]int
}

// put writes s in place of the text up to end.
func (n *normalizer) put(s string, end int) {
	n.out = append(n.out, s...)
	n.pos = end
}

// keep writes the text up to end as it is.
func (n *normalizer) keep(end int) { n.put(n.text[n.pos:end], end) }

func (n *normalizer) step() {
	c := n.text[n.pos]
	switch {
	case c == ' ':
		n.keep(n.pos + 1)
	case c == '"' || c == '\'' || c == '`':
		n.quoted(c)
	case c == '[':
		n.bracket()
	case isLetter(c) || isDigit(c):
		n.word()
	default:
		n.keep(n.pos + 1)
	}
}

// quoted keeps what stands between two quotes on one line, unless it is a URL.
func (n *normalizer) quoted(quote byte) {
	end := n.closing(quote)
	if end < 0 {
		n.keep(n.pos + 1)
		return
	}
	if isURL(n.text[n.pos+1 : end]) {
		n.keep(n.pos + 1)
		n.put(aURL, end)
	}
	n.keep(end + 1)
}

// closing returns where the quote at the present place is closed, or -1.
func (n *normalizer) closing(quote byte) int {
	kind := strings.IndexByte("\"'`", quote)
	if n.pos < n.unclosed[kind] {
		return -1
	}
	if quote == '\'' && n.pos > 0 && isWord(n.text[n.pos-1]) {
		return -1 // an apostrophe
	}
	i := n.pos + 1
	for ; i < len(n.text) && n.text[i] != '\n'; i++ {
		switch {
		case n.text[i] == '\\' && quote != '`':
			if i+1 < len(n.text) && n.text[i+1] != '\n' {
				i++
			}
		case n.text[i] != quote:
		case quote == '\'' && i+1 < len(n.text) && isWord(n.text[i+1]): // an apostrophe
		default:
			return i
		}
	}
	n.unclosed[kind] = i
	return -1
}

// bracket replaces the address in "[2001:db8::1]".
func (n *normalizer) bracket() {
	const longest = 60 // an IPv6 address with its zone
	rest := n.text[n.pos+1 : min(len(n.text), n.pos+longest)]
	if end := strings.IndexByte(rest, ']'); end > 0 {
		if addr, err := netip.ParseAddr(rest[:end]); err == nil && addr.Is6() {
			n.put("["+aNumber, n.pos+1+end)
			return
		}
	}
	n.keep(n.pos + 1)
}

// word rewrites what starts with a letter or digit.
func (n *normalizer) word() {
	rest := n.text[n.pos:]
	if stand, length := variable(rest); length > 0 {
		n.put(stand, n.pos+length)
		return
	}
	n.name(n.pos + wordLen(rest))
}

// variable returns the length of what differs between two instances at the start of s, and what stands for it.
func variable(s string) (stand string, length int) {
	digit := isDigit(s[0])
	if digit || isWeekday(s) {
		if length = timeLen(s); length > 0 {
			return aTime, length
		}
	}
	if isHex(s[0]) {
		if length = uuidLen(s); length > 0 {
			return anID, length
		}
		if length = hexLen(s); length > 0 {
			return aHex, length
		}
	}
	if digit {
		if length = numberLen(s); length > 0 {
			return aNumber, length
		}
	}
	return aURL, urlLen(s)
}

// name rewrites a word that is neither a number nor a URL: the pieces between its underscores one by one.
func (n *normalizer) name(end int) {
	for n.pos < end {
		piece := n.text[n.pos:end]
		if i := strings.IndexByte(piece, '_'); i == 0 {
			n.keep(n.pos + 1)
			continue
		} else if i > 0 {
			piece = piece[:i]
		}
		if l := uuidLen(n.text[n.pos:]); l > 0 {
			n.put(anID, n.pos+l)
			continue
		}
		if isID(piece) {
			n.put(anID, n.pos+len(piece))
			continue
		}
		n.piece(n.pos + len(piece))
	}
}

// piece replaces the long numbers in a part of a name.
func (n *normalizer) piece(end int) {
	for n.pos < end {
		digits := digitsLen(n.text[n.pos:end])
		switch {
		case digits == 0:
			n.keep(n.pos + lettersLen(n.text[n.pos:end]))
		case digits <= 2:
			n.keep(n.pos + digits)
		default:
			n.put(aNumber, n.pos+digits)
		}
	}
}
