package journal

import "time"

// Message is something that somebody outside has sent to a run.
type Message struct {
	// Seq is the message's number in its run's inbox, from 1. The store assigns it.
	Seq  int64       `json:"seq"`
	Kind MessageKind `json:"kind"`
	// Name is the name of a signal, update or query, or the id of a question or child.
	Name string `json:"name,omitempty"`
	// Key makes sending twice harmless: of the messages of a run with the same key, only the first counts. Empty for none.
	Key string `json:"key,omitempty"`
	// Time is when it was sent, to the microsecond, in UTC.
	Time time.Time `json:"time"`
	// Payload is what was sent, as the sender's Codec has written it.
	Payload []byte `json:"payload,omitempty"`
}

// MessageKind says what a message is. The strings are stable: they are stored.
type MessageKind string

// The kinds of messages.
const (
	SignalMessage MessageKind = "signal" // a value for whoever waits for the signal of that name
	AnswerMessage MessageKind = "answer" // the answer to a question
	CancelMessage MessageKind = "cancel" // the run is to end; the payload is the reason
	PauseMessage  MessageKind = "pause"  // the run is to rest from its next durable call on; the payload is the reason
	ResumeMessage MessageKind = "resume" // the run is to go on
	UpdateMessage MessageKind = "update" // an argument for the update handler of that name
	QueryMessage  MessageKind = "query"  // an argument for the query handler of that name
	ChildMessage  MessageKind = "child"  // the run of that name, which this one has started, has ended
	ChainMessage  MessageKind = "chain"  // the run of that name, which this one continues, has ended
)
