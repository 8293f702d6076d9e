package journal_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pawl-go/pawl/journal"
)

// A store is easy to write: what is not needed by every run is an interface of its own.
func TestAStoreHasAtMostEightMethods(t *testing.T) {
	store := reflect.TypeFor[journal.Store]()
	assert.LessOrEqual(t, store.NumMethod(), 8)
	for _, more := range []reflect.Type{
		reflect.TypeFor[journal.Lister](), reflect.TypeFor[journal.Deleter](), reflect.TypeFor[journal.Watcher](),
	} {
		assert.False(t, store.Implements(more), "%v is not asked of every store", more)
	}
}
