package classifier

// Default returns the classifier with the rules of this package.
func Default() RunErrorClassifier { return defaultRules{} }

type defaultRules struct{}

func (defaultRules) Classify(err error) Classification {
	return Classification{Class: Unknown}
}
