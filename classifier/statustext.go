package classifier

import (
	"slices"
	"strings"

	"github.com/sashabaranov/go-openai"
)

const (
	maxTexts     = 1024     // how many texts of one tree are read
	maxTextBytes = 64 << 20 // and how many bytes of them, counted again for each received text that is cut out
)

// textStatus returns the status that the texts of a tree name, or 0.
func textStatus(nodes []node) int {
	received := receivedTexts(nodes)
	status, budget := 0, maxTextBytes
	for i := 0; i < len(nodes) && i < maxTexts && !permanent(status); i++ {
		if isReceived(nodes[i].err) {
			continue
		}
		text := textOf(nodes[i].err)
		if budget -= len(text) * (1 + len(received)); budget < 0 {
			break
		}
		text, whole := cutReceived(text, received)
		// A wrapper that does not quote a received text as it is may hold a piece of it.
		if whole || isLeaf(nodes[i].err) {
			status = better(status, scanStatus(text))
		}
	}
	return status
}

// isReceived reports whether the text of err is, or contains, what a server sent.
func isReceived(err error) bool {
	switch original(err).(type) {
	case *openai.APIError, *openai.RequestError:
		return true
	}
	return false
}

// receivedTexts returns the received texts of a tree, the longest first: a shorter one can be a part of it.
func receivedTexts(nodes []node) []string {
	var texts []string
	for _, n := range nodes {
		if isReceived(n.err) && len(texts) < maxTexts {
			texts = append(texts, textOf(n.err))
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	return texts
}

// cutReceived takes the received texts out of a text. A line feed takes their place, which no pattern crosses. It is
// whole if each of them was found.
func cutReceived(text string, received []string) (rest string, whole bool) {
	rest, whole = text, true
	for _, r := range received {
		if r == "" {
			continue
		}
		whole = whole && strings.Contains(text, r)
		rest = strings.ReplaceAll(rest, r, "\n")
	}
	return rest, whole
}

func isLeaf(err error) bool {
	one, many := unwrap(err)
	return one == nil && len(many) == 0
}

// textOf returns the text of an error, empty if its method panics.
func textOf(err error) string {
	text, _ := ask(err.Error)
	return text
}

// scanStatus returns the status that a text names, or 0. It looks at each byte a bounded number of times.
func scanStatus(text string) int {
	status := 0
	for i := 0; i+1 < len(text); i++ {
		end := 0
		if text[i+1]|0x20 != 't' { // the second letter of both words
			continue
		}
		switch text[i] {
		case 'h', 'H':
			end = afterHTTP(text, i)
		case 's', 'S':
			end = afterStatusCode(text, i)
		}
		if end == 0 || (i > 0 && isWord(text[i-1])) {
			continue
		}
		if status = better(status, threeDigits(text, end)); permanent(status) {
			break
		}
	}
	return status
}

// afterHTTP returns where the number starts behind "HTTP ", "HTTP/1.1 ", "HTTP status " or "HTTP error " at i, or 0.
func afterHTTP(text string, i int) int {
	i = afterFold(text, i, "http")
	if i == 0 {
		return 0
	}
	i = skipVersion(text, i)
	start := i
	if i = skipBlanks(text, i); i == start {
		return 0
	}
	for _, word := range [...]string{"status", "error"} {
		if end := afterFold(text, i, word); end != 0 {
			i = skipSeparator(text, end)
			break
		}
	}
	return i
}

// afterStatusCode returns where the number starts behind "status code: " at i, or 0.
func afterStatusCode(text string, i int) int {
	if i = afterFold(text, i, "status code"); i == 0 {
		return 0
	}
	return skipSeparator(text, i)
}

// afterFold returns the place behind word if it stands at i in upper or lower case, or 0.
func afterFold(text string, i int, word string) int {
	if len(text)-i < len(word) || !strings.EqualFold(text[i:i+len(word)], word) {
		return 0
	}
	return i + len(word)
}

// skipVersion skips "/1.1" or "/2".
func skipVersion(text string, i int) int {
	if i+1 >= len(text) || text[i] != '/' || !isDigit(text[i+1]) {
		return i
	}
	i += 2
	if i+1 < len(text) && text[i] == '.' && isDigit(text[i+1]) {
		i += 2
	}
	return i
}

// skipSeparator skips a colon or an equals sign and the blanks around it.
func skipSeparator(text string, i int) int {
	i = skipBlanks(text, i)
	if i < len(text) && (text[i] == ':' || text[i] == '=') {
		i++
	}
	return skipBlanks(text, i)
}

func skipBlanks(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return i
}

// threeDigits returns the number from 100 to 599 that stands at i with a word boundary on both sides, or 0.
func threeDigits(text string, i int) int {
	if len(text)-i < 3 || isWord(text[i-1]) || (len(text) > i+3 && isWord(text[i+3])) {
		return 0
	}
	n := 0
	for _, c := range []byte(text[i : i+3]) {
		if !isDigit(c) {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	if n < 100 || n > 599 {
		return 0
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWord reports whether c is part of a word. Other scripts do not count: they need no blank before "HTTP".
func isWord(c byte) bool {
	return isDigit(c) || c == '_' || isLetter(c)
}

func isLetter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z'
}
