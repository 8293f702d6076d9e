package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// longest is how much of one id or text is printed, in bytes. JSON has all of it.
const longest = 200

// printable makes a text of any origin fit for one line of a terminal: as it is if all of it can be printed, else in Go's
// quotes. Long ones are cut.
func printable(text string) string {
	cut := ""
	if len(text) > longest {
		end := longest
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		cut = fmt.Sprintf("... (%d bytes)", len(text))
		text = text[:end]
	}
	if text == "" || strings.TrimSpace(text) != text || text[0] == '"' || !isPrintable(text) {
		text = strconv.Quote(text)
	}
	return text + cut
}

func isPrintable(text string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// quoted is a text in quotes, always.
func quoted(text string) string {
	if p := printable(text); strings.HasPrefix(p, `"`) {
		return p
	}
	if len(text) > longest {
		return printable(text)
	}
	return strconv.Quote(text)
}

// textLines are the lines of a text for people, at most ten, each without characters that a terminal would act on.
func textLines(text string) []string {
	const most, width = 10, 2000
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	rest := len(lines) - most
	if rest > 0 {
		lines = lines[:most]
	}
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		if len(line) > width {
			line = strings.ToValidUTF8(line[:width], "") + fmt.Sprintf("... (%d bytes)", len(line))
		}
		lines[i] = onTerminal(line)
	}
	if rest > 0 {
		lines = append(lines, fmt.Sprintf("... (%d more lines)", rest))
	}
	return lines
}

// onTerminal is a line with escapes for the characters that a terminal would act on.
func onTerminal(line string) string {
	line = strings.ReplaceAll(line, "\t", "    ")
	if isPrintable(line) {
		return line
	}
	q := strconv.Quote(line)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// command is a command line of this program for the same store, quoted for a shell: the words of the command, then its arguments.
func (s *session) command(words string, args ...string) string {
	line := []string{"pawl"}
	if s.given {
		line = append(line, "--store", shellWord(shownStore(s.store)))
	}
	if s.schema != "" && s.schemaGiven {
		line = append(line, "--schema", shellWord(s.schema))
	}
	line = append(line, words)
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		line = append(line, "--")
	}
	for _, a := range args {
		line = append(line, shellWord(a))
	}
	return strings.Join(line, " ")
}

// shellWord is a text as a POSIX shell reads it back.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,~#", r)
	}
	switch {
	case text != "" && text[0] != '~' && text[0] != '#' && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0:
		return text
	case isPrintable(text):
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	q := strconv.QuoteToASCII(text) // as bash and zsh read it
	return "$'" + strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), "'", `\'`) + "'"
}

// age is how long something lasts, in one unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d/time.Second)))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// ago is a time before now.
func (s *session) ago(t time.Time) string { return age(s.now.Sub(t)) + " ago" }

// until is a time from now, or one that is over.
func (s *session) until(t time.Time) string {
	if d := t.Sub(s.now); d > 0 {
		return "in " + age(d)
	}
	return "since " + age(s.now.Sub(t))
}

// clock is a time to the second.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// span is a duration with three digits or so.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Truncate(time.Second)
	case d >= time.Second:
		d = d.Truncate(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Truncate(100 * time.Microsecond)
	default:
		d = d.Truncate(time.Microsecond)
	}
	return d.String()
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
