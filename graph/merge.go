package graph

import (
	"fmt"
	"reflect"
)

// newWriter returns how a field of type src is merged into one of type dst, or what is wrong and what to do.
func newWriter(tag string, dst, src reflect.Type) (w writer, what, remedy string) {
	switch tag {
	case "", "last", "set":
		w = writer{exclusive: true, merge: assign, deref: src != dst && src == reflect.PointerTo(dst)}
		if src != dst && !w.deref {
			return w, fmt.Sprintf("its type %s does not fit the state's %s", src, dst), settable(dst)
		}
	case "append":
		w.merge = appendTo
		if src != dst || src.Kind() != reflect.Slice {
			return w, misfit(tag, src, dst), "append takes the same slice type on both sides"
		}
	case "union":
		return newUnion(dst, src)
	case "max", "min", "sum":
		return newNumeric(tag, dst, src)
	default:
		return w, fmt.Sprintf("unknown merge tag %q", tag), `use "last", "append", "union", "max", "min", "sum" or "set:Field"`
	}
	return w, "", ""
}

func misfit(tag string, src, dst reflect.Type) string {
	return fmt.Sprintf("merge tag %q cannot merge %s into %s", tag, src, dst)
}

// settable is the remedy for a type that does not fit.
func settable(t reflect.Type) string {
	return fmt.Sprintf("make it %s, or %s to be able to set a zero", t, reflect.PointerTo(t))
}

func assign(dst, v reflect.Value) {
	dst.Set(v)
	if v.Kind() == reflect.Slice {
		// Appends to the state must not write into an array that the node still holds.
		dst.SetCap(v.Len())
	}
}

// appendTo grows dst in place where its array has room: what others hold of that array ends before.
func appendTo(dst, v reflect.Value) {
	n, add := dst.Len(), v.Len()
	dst.Grow(add)
	dst.SetLen(n + add)
	for i := range add { // reflect.AppendSlice would allocate a slice header a call
		dst.Index(n + i).Set(v.Index(i))
	}
}
