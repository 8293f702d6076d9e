package main

import (
	"errors"
	"time"

	"github.com/pawl-go/pawl/classifier"
	"github.com/pawl-go/pawl/examples/agents/internal/model"
	"github.com/pawl-go/pawl/providers"
	"github.com/pawl-go/pawl/providers/scripted"
)

// models are what the nodes talk to.
type models struct {
	front   providers.Provider // classifies, and answers most tickets
	billing providers.Provider // a specialist, and whoever stands in for it
	closers []func()
}

// openModels opens the endpoints and puts the middleware around them. What an error means to a layer is the rules' to say.
func openModels(
	live bool, rules classifier.RunErrorClassifier, onChange func(from, to providers.CircuitState),
) (*models, error) {
	m := &models{}
	front, err := m.open("front", live, frontScript())
	if err != nil {
		return nil, err
	}
	specialist, err := m.open("specialist", live, specialistScript())
	if err != nil {
		m.close()
		return nil, err
	}
	backup, err := m.open("backup", live, backupScript())
	if err != nil {
		m.close()
		return nil, err
	}
	// The front model's account allows 200 requests a second, however many runs share it. It is left alone for a while if
	// half of fifty calls fail; those that the gateway blocks do not count.
	var bad [2]error
	m.front, bad[0] = providers.Wrap(front,
		providers.Breaker{Failures: 50, Ratio: 0.5, MinCalls: 50, Classifier: rules, OnChange: onChange},
		providers.RateLimit{RequestsPerMinute: 12_000, RequestBurst: 100},
		providers.MaxConcurrent{Calls: 8},
		providers.Timeout{Call: time.Minute},
	)
	// After five failures in a row the specialist is left alone for a minute; meanwhile the backup answers.
	m.billing, bad[1] = providers.Wrap(specialist,
		providers.Fallback{Then: []providers.Provider{backup}, Classifier: rules},
		providers.Breaker{Failures: 5, OpenFor: time.Minute, Classifier: rules, OnChange: onChange},
		providers.Timeout{Call: time.Minute},
	)
	if err := errors.Join(bad[:]...); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *models) open(name string, live bool, script *scripted.Script) (providers.Provider, error) {
	client, closeClient, err := model.Open(name, live, script)
	if err != nil {
		return nil, err
	}
	m.closers = append(m.closers, closeClient)
	return client, nil
}

func (m *models) close() {
	for _, c := range m.closers {
		c()
	}
}
