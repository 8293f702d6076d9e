package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// fingerprint hashes all of a topology that decides which journals fit it.
func (t *topology) fingerprint() string {
	sum := sha256.Sum256(t.describe(nil))
	return hex.EncodeToString(sum[:])
}

// describe writes the topology down. Quoting keeps names apart whatever characters they have. What a map or a timeout
// says is left out, declaration order is kept: it is the order in which updates are reduced.
func (t *topology) describe(out []byte) []byte {
	out = fmt.Appendf(out, "graph %q reducer %q fields %q start %d\n", t.name, t.reducer, t.fields, t.start)
	for _, n := range t.nodes {
		out = fmt.Appendf(out, "node %q %s item %q catch %t deferred %t targets %d\n", n.name, n.kind, n.item, n.catch, n.set.deferred, n.targets)
		if n.sub != nil {
			out = append(n.sub.describe(append(out, "{\n"...)), "}\n"...)
		}
	}
	for _, e := range t.edges {
		out = fmt.Appendf(out, "edge %d %d\n", e.from, e.to)
	}
	for _, r := range t.routers {
		out = fmt.Appendf(out, "router %d %d\n", r.from, r.targets)
	}
	for _, j := range t.joins {
		out = fmt.Appendf(out, "join %d %d\n", j.sources, j.target)
	}
	return out
}
