package superstep

import (
	"context"

	"github.com/pawl-go/pawl/durable"
)

// Pause has a run rest from its next super-step on, until Unpause. The super-step that is under way is finished first, its
// subgraphs included. See durable.Pause.
func (r *Runner[S, U]) Pause(ctx context.Context, id, reason string) error {
	if err := r.needStore("Pause"); err != nil {
		return err
	}
	return durable.Pause(ctx, r.cfg.Store, id, reason, durable.Using(r.settings(nil)))
}

// Unpause lets a run go on that was paused, when it is run again. See durable.Unpause.
func (r *Runner[S, U]) Unpause(ctx context.Context, id string) error {
	if err := r.needStore("Unpause"); err != nil {
		return err
	}
	return durable.Unpause(ctx, r.cfg.Store, id, durable.Using(r.settings(nil)))
}
