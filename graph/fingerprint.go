package graph

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// fingerprint hashes all of a topology that decides which journals fit it, and what is said of the types: see
// Graph.Fingerprint. Names are quoted, which keeps them apart whatever characters they have.
func (t *topology) fingerprint(types []string) string {
	out := make([]byte, 0, 128*(len(t.nodes)+1))
	out = strconv.AppendQuote(append(out, "graph "...), t.name)
	for _, s := range types {
		out = strconv.AppendQuote(append(out, ' '), s)
	}
	out = appendSet(append(out, "\nstart"...), t.start)
	for i := range t.nodes {
		out = t.nodes[i].describe(append(out, '\n'))
	}
	for _, r := range t.routers {
		out = strconv.AppendInt(append(out, "\nrouter "...), int64(r.from), 10)
		out = appendSet(append(out, " targets"...), r.targets)
	}
	for _, j := range sortedJoins(t.joins) {
		out = strconv.AppendInt(append(out, "\njoin "...), int64(j.target), 10)
		out = appendSet(append(out, " sources"...), j.sources)
	}
	sum := sha256.Sum256(out)
	return hex.EncodeToString(sum[:])
}

// describe writes a node down. Of its settings only Defer decides what runs when.
func (n *nodeInfo) describe(out []byte) []byte {
	out = strconv.AppendQuote(append(out, "node "...), n.name)
	out = append(append(out, ' '), n.kind...)
	out = strconv.AppendQuote(append(out, " item "...), n.item)
	out = strconv.AppendBool(append(out, " catch "...), n.catch)
	out = strconv.AppendBool(append(out, " deferred "...), n.set.deferred)
	out = appendSet(append(out, " edges"...), n.edges)
	out = appendSet(append(out, " targets"...), n.targets)
	if n.sub != nil {
		out = append(append(out, " sub "...), n.sub.fingerprint...)
	}
	return out
}

// appendSet writes indexes in their order, since it does not matter in which they were declared.
func appendSet(out []byte, set []int) []byte {
	if !slices.IsSorted(set) {
		set = slices.Clone(set)
		slices.Sort(set)
	}
	for _, i := range set {
		out = strconv.AppendInt(append(out, ' '), int64(i), 10)
	}
	return out
}

func sortedJoins(joins []joinInfo) []joinInfo {
	sorted := slices.Clone(joins)
	slices.SortFunc(sorted, func(a, b joinInfo) int {
		return cmp.Or(cmp.Compare(a.target, b.target), slices.Compare(a.sources, b.sources))
	})
	return sorted
}

// describeType says what a state or update is made of: the name, type and merge tag of each field of a struct. Its own
// name is left out; it may move between packages.
func describeType[T any]() string {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return typeString(t)
	}
	var out strings.Builder
	for _, f := range leaves(t, nil) {
		fmt.Fprintf(&out, "%s %s %q\n", f.Name, typeString(f.Type), f.Tag.Get("merge"))
	}
	return out.String()
}

func typeName[T any]() string { return typeString(reflect.TypeFor[T]()) }

// typeString names a type with the whole paths of its packages, so that two packages of one name stay apart. Only within
// unnamed func, struct and interface types packages go by their last element.
func typeString(t reflect.Type) string {
	if t.PkgPath() != "" {
		return t.PkgPath() + "." + t.Name()
	}
	if t.Name() != "" {
		return t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typeString(t.Elem())
	case reflect.Slice:
		return "[]" + typeString(t.Elem())
	case reflect.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), typeString(t.Elem()))
	case reflect.Map:
		return fmt.Sprintf("map[%s]%s", typeString(t.Key()), typeString(t.Elem()))
	default:
		return t.String()
	}
}
