package graph

// Next says what runs next: the answer of a router or a Goto node. The zero Next names nothing and ends the branch, as
// To(End) does. It is a value and safe for concurrent use.
type Next struct {
	first Target // most answers name one target, and then nothing is allocated
	more  []Target
	n     int
}

// Target is one node that a Next names.
type Target struct {
	ref *nodeRef
	// Items is what is sent to a task node; nil for any other.
	Items Items
}

// Name is the target's name, for messages.
func (t Target) Name() string {
	if t.ref == nil {
		return "zero Node"
	}
	return t.ref.name
}

// To names nodes. Each runs once, however often it is named. To() names none and ends the branch.
func To(nodes ...Node) Next {
	var next Next
	for _, n := range nodes {
		next = next.and(Target{ref: n.r})
	}
	return next
}

// All joins several answers into one, in order: To(write) and search.Each(queries), say.
func All(answers ...Next) Next {
	var next Next
	for _, a := range answers {
		for i := range a.Len() {
			next = next.and(a.At(i))
		}
	}
	return next
}

// Len is the number of targets named, duplicates included.
func (n Next) Len() int { return n.n }

// At returns the i-th target, in the order in which they were named.
func (n Next) At(i int) Target {
	if i == 0 {
		return n.first
	}
	return n.more[i-1]
}

// and returns n with one more target. It may write behind n's own, so n must be one that nobody else holds.
func (n Next) and(t Target) Next {
	if n.n == 0 {
		n.first = t
	} else {
		n.more = append(n.more, t)
	}
	n.n++
	return n
}
