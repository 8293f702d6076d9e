package durable

import (
	"context"

	"github.com/pawl-go/pawl/journal"
)

// RunInfo says which run code belongs to. The zero RunInfo means none.
type RunInfo struct {
	RunID string
	Kind  journal.RunKind
	// Name and Version are those of the workflow or graph that was started.
	Name, Version string
	// Scope is where durable calls are recorded: empty for a workflow's body, else the path of the task or branch.
	Scope string
	// Step is the name of the step that the code is inside of; empty if there is none.
	Step string
	// Replaying is true as long as the code has not met again all that is recorded of its scope. Nothing but logs should
	// depend on it.
	Replaying bool
}

// Info returns the run that ctx belongs to.
func Info(ctx context.Context) RunInfo {
	s, in := scopeOf(ctx)
	var info RunInfo
	if in != nil {
		info.Step = in.name
		s = in.within()
	}
	if s == nil {
		return info
	}
	run := s.x.record.run
	info.RunID, info.Kind, info.Name, info.Version, info.Scope = s.x.id, run.Kind, run.Name, run.Version, s.path
	s.mu.Lock()
	defer s.mu.Unlock()
	info.Replaying = s.unmet() != nil
	return info
}
