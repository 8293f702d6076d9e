package journal

import "time"

// Run is the record of a run: what can be told of it without reading its events.
type Run struct {
	// ID names the run: any non-empty string, and only ever data. See MaxIDLength.
	ID string `json:"id"`
	// Kind says what is run.
	Kind RunKind `json:"kind"`
	// Name is the name of the graph or workflow, Version what its author calls this version of it.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Fingerprint identifies a graph's nodes, edges and fields; empty for a workflow.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Thread names the conversation that the run is a turn of; empty for none.
	Thread string `json:"thread,omitempty"`
	// Link says which run this one comes from; its zero value for none.
	Link Link `json:"link,omitzero"`
	// Queue names the queue in which the run waits for workers; empty if none takes it: whoever has made it runs it.
	Queue string `json:"queue,omitempty"`
	// Dedup is a key that no other run has which has not ended; empty for none.
	Dedup string `json:"dedup,omitempty"`

	// What follows is the store's to say. Create ignores it.

	Status  Status    `json:"status"`
	Created time.Time `json:"created"`
	// Updated is when the status changed last.
	Updated time.Time `json:"updated"`
	// Due is when a suspended run is to be taken up again, whoever answers it meanwhile, and zero if only a message does;
	// of a pending run, before when no worker takes it, zero for at once. A message to a suspended run of a queue makes it
	// due.
	Due time.Time `json:"due,omitzero"`
	// Head is the number of the last event, Checkpoint that of the last Checkpoint event; 0 for none.
	Head       int64 `json:"head"`
	Checkpoint int64 `json:"checkpoint,omitempty"`
	// Owner and Until describe the lease; empty and zero if nobody holds the run.
	Owner string    `json:"owner,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

// Program says which code can run the run.
func (r Run) Program() Program {
	return Program{Kind: r.Kind, Name: r.Name, Version: r.Version, Fingerprint: r.Fingerprint}
}

// Program names the code of runs: a version of a workflow, or a graph with a fingerprint. Code serves just those runs whose
// program is the same in every field.
type Program struct {
	Kind                       RunKind
	Name, Version, Fingerprint string
}

// MaxIDLength is the longest id of a run that stores take, in bytes.
const MaxIDLength = 64 << 10

// RunKind says what is run.
type RunKind string

// The kinds of runs.
const (
	GraphRun    RunKind = "graph"
	WorkflowRun RunKind = "workflow"
)

// Link says which run another one comes from.
type Link struct {
	Kind LinkKind `json:"kind"`
	// Run is the id of the run it comes from, which may have been deleted since.
	Run string `json:"run"`
	// SuperStep is where a fork branches off.
	SuperStep int `json:"super_step,omitempty"`
}

// LinkKind says how a run comes from another.
type LinkKind string

// The kinds of links.
const (
	RetryOf      LinkKind = "retry"     // goes on where a failed run failed
	ForkOf       LinkKind = "fork"      // branches off a super-step
	TurnAfter    LinkKind = "turn"      // the next turn of a conversation
	ChildOf      LinkKind = "child"     // was started by another run
	Continuation LinkKind = "continued" // continues a run as new
)

// Status is what has become of a run.
type Status string

// The statuses. The last four are terminal.
const (
	Pending   Status = "pending"   // waits for an owner
	Running   Status = "running"   // has one, or had one that has gone without a word
	Suspended Status = "suspended" // waits for a message or a time
	Completed Status = "completed"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
	Continued Status = "continued" // as a new run
)

// Terminal reports whether a run of this status has ended for good.
func (s Status) Terminal() bool {
	switch s {
	case Completed, Failed, Cancelled, Continued:
		return true
	}
	return false
}
