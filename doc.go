// Package pawl is the root of an SDK for agent graphs. It holds no code: what a graph is stands in package graph, how it
// runs in package superstep, what is retried and why in packages retrypolicy and classifier, and how providers are
// called in package providers.
package pawl
