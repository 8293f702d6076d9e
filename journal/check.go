package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// What all stores refuse, and how they keep what they take.

// CheckID is for stores: it refuses an id that no run can have.
func CheckID(run string) error {
	switch {
	case run == "":
		return fmt.Errorf("pawl: a run's id is empty: give it one of 1 to %d bytes", MaxIDLength)
	case len(run) > MaxIDLength:
		return fmt.Errorf("pawl: run %s: the id is too long: give it one of 1 to %d bytes", quote(run), MaxIDLength)
	}
	return nil
}

// Check is for stores: it refuses a run that cannot be made, because of its id or its first event, or, with a *RefusedError, of
// an event behind a terminal one.
func (n *NewRun) Check() error {
	if err := CheckID(n.Run.ID); err != nil {
		return err
	}
	if len(n.Events) == 0 || n.Events[0].Kind != RunStart {
		return fmt.Errorf("pawl: run %s: its first event must be %s", quote(n.Run.ID), RunStart)
	}
	return CheckEnd(n.Run.ID, n.Events)
}

// CheckEnd is for stores: it refuses events behind a terminal one, with a *RefusedError.
func CheckEnd(run string, events []Event) error {
	for i := range len(events) - 1 {
		if events[i].Kind.Terminal() {
			detail := fmt.Sprintf("%s behind %s", events[i+1].Kind, events[i].Kind)
			return &RefusedError{Run: run, Reason: ErrEnded, Detail: detail}
		}
	}
	return nil
}

// Same is for stores: whether an event is the one that is stored, but for its number.
func Same(stored, e *Event) bool {
	return stored.Kind == e.Kind && stored.Scope == e.Scope && stored.Name == e.Name && stored.N == e.N &&
		stored.Time.Equal(Stamp(e.Time)) && stored.Took == e.Took && stored.Attempts == e.Attempts &&
		bytes.Equal(stored.Meta, e.Meta) && bytes.Equal(stored.Payload, e.Payload)
}

// Stamp is for stores: a time as they keep it, in UTC and to the microsecond.
func Stamp(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Sum is for stores: sixteen bytes that stand for the program in an index. They are stored, and do not change.
func (p Program) Sum() []byte {
	const size = 16
	var b []byte
	for _, part := range []string{string(p.Kind), p.Name, p.Version, p.Fingerprint} {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(b)
	return sum[:size]
}
