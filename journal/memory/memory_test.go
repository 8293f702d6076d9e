package memory_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-go/pawl/journal"
	"github.com/pawl-go/pawl/journal/journaltest"
	"github.com/pawl-go/pawl/journal/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	journaltest.Run(t, journaltest.Harness{Open: func(*testing.T) journal.Store { return memory.New() }})
}
