package memory

import (
	"fmt"

	"github.com/pawl-go/pawl/journal"
)

func ended(e *entry) error {
	return &journal.RefusedError{Run: e.run.ID, Reason: journal.ErrEnded, Detail: fmt.Sprintf("it is %s", e.run.Status)}
}

func locked(e *entry) error {
	return &journal.LockedError{Run: e.run.ID, Owner: e.run.Owner, Until: e.run.Until}
}

func fenced(e *entry, l journal.Lease) error {
	detail := fmt.Sprintf("token %d was given up or followed by another", l.Token)
	return &journal.RefusedError{Run: e.run.ID, Reason: journal.ErrFenced, Detail: detail}
}

func conflict(e *entry, a journal.Append) error {
	detail := fmt.Sprintf("%d events for behind number %d, but the last one is number %d", len(a.Events), a.After, e.run.Head)
	return &journal.RefusedError{Run: e.run.ID, Reason: journal.ErrConflict, Detail: detail}
}

// quote makes text of any kind and length fit for a message.
func quote(text string) string {
	const most = 100
	if len(text) > most {
		return fmt.Sprintf("%q... (%d bytes)", text[:most], len(text))
	}
	return fmt.Sprintf("%q", text)
}
