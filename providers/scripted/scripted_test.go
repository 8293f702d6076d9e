package scripted_test

import (
	"testing"

	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/providertest"
	"github.com/pawl-go/pawl/providers/scripted"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(_ *testing.T, script *scripted.Script) providers.Provider { return script.Provider("fake") },
	})
}
