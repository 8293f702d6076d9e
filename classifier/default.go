package classifier

// Default returns the classifier with this package's rules. It reads what errors say of themselves (Classed), recovered
// panics, cancellations, go-openai's and gobreaker's errors, HTTP statuses as HTTPStatus finds them, timeouts, connection
// errors and unreadable answers. It never guesses: where no rule matches, the class is Unknown.
//
// Along a path of the tree the outer error's own word counts; a status or a connection error in a wrapper gives way
// to a more exact class inside. Of several branches a cancellation counts first, then the first failure that a
// retry cannot help, then the first. A status in a text counts only where no error in the tree says more.
//
// Vendors sometimes want a 402, 409, 425 or 498 to be retried, and some gateways report an outage as 400: the permanent
// rule forbids these, on purpose.
//
// An error that comes out of a journal has the class it was recorded with: see RecordedClass.
func Default() RunErrorClassifier { return defaultRules{} }

type defaultRules struct{}

func (defaultRules) Classify(err error) Classification {
	var buf [8]node
	nodes := flatten(err, buf[:0])
	if len(nodes) == 0 {
		return filled(Classification{Class: Unknown}, err)
	}
	if class, is := recordedClass(err); is {
		return filled(Classification{Class: class}, err)
	}
	a := answerOfTree(nodes)
	if a.weight != explicit && typedStatus(nodes) == 0 {
		if status := textStatus(nodes); status >= 400 {
			a = stronger(a, answer{class: statusClass(status), weight: weak})
		}
	}
	if a.weight == none {
		a.class = Unknown
	}
	return filled(Classification{Class: a.class}, err)
}

// answer is what one error, or a tree, says of its class.
type answer struct {
	class  RunErrorClass
	weight weight
}

// weight says how an answer stands to the answers inside it.
type weight int

const (
	none     weight = iota
	weak            // gives way to a more exact answer inside
	explicit        // covers what is inside, and every text
)

// answerOfTree goes from the leaves up, since a node's own word can cover what its branches say.
func answerOfTree(nodes []node) answer {
	var buf [8]answer
	below := append(buf[:0], make([]answer, len(nodes))...)
	for i := len(nodes) - 1; i >= 0; i-- {
		own := ownAnswer(nodes[i].err)
		if own.weight != explicit {
			own = refined(own, below[i])
		}
		below[i] = own
		if p := nodes[i].parent; p >= 0 {
			below[p] = stronger(own, below[p])
		}
	}
	return below[0]
}

// refined is the answer of a node with a weak word or none.
func refined(own, inside answer) answer {
	if own.weight == none || (inside.weight != none && !inside.class.Transient()) {
		return inside
	}
	return own
}

// stronger is the answer that counts of two branches; first stands before second.
func stronger(first, second answer) answer {
	if second.rank() > first.rank() {
		return second
	}
	return first
}

func (a answer) rank() int {
	switch {
	case a.weight == none:
		return 0
	case a.class == Canceled:
		return 3
	case !a.class.Transient():
		return 2
	}
	return 1
}
