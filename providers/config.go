package providers

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-go/pawl/classifier"
)

// ConfigError says what is wrong with a configuration, all of it at once.
type ConfigError struct {
	// Config names the type: "providers.Breaker".
	Config string
	// Problems are in the order of the fields.
	Problems []Problem
}

// Problem is one bad field.
type Problem struct {
	// Field is its name, and Value what it holds; a secret is not shown.
	Field, Value string
	// Remedy says what to do.
	Remedy string
}

// Error names every bad field with its value and what to do.
func (e *ConfigError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = fmt.Sprintf("%s is %s: %s", p.Field, p.Value, p.Remedy)
	}
	return "pawl: " + e.Config + ": " + strings.Join(parts, "; ")
}

// RunErrorClass makes it a classifier.Classed: what cannot be built is compilation_failed.
func (e *ConfigError) RunErrorClass() classifier.RunErrorClass { return classifier.CompilationFailed }

// Add notes a bad field.
func (e *ConfigError) Add(field, value, remedy string) {
	e.Problems = append(e.Problems, Problem{Field: field, Value: value, Remedy: remedy})
}

// OrNil returns e as an error if it has problems, otherwise nil.
func (e *ConfigError) OrNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}

// notNegative notes a number or time below 0; what 0 means is the remedy's to say.
func notNegative[T int | time.Duration](e *ConfigError, field string, v T, remedy string) {
	if v < 0 {
		e.Add(field, fmt.Sprint(v), remedy)
	}
}

// setOnce sets what is still zero.
func setOnce[T comparable](dst *T, v T) {
	var zero T
	if *dst == zero {
		*dst = v
	}
}

// guard returns a classifier of the user's so that its panic cannot end a call, or the default one.
func guard(c classifier.RunErrorClassifier) classifier.RunErrorClassifier {
	if isNil(c) {
		return classifier.Default()
	}
	return classifier.Guard(c, nil)
}
