package graph

import (
	"fmt"
	"reflect"
	"slices"
	"unsafe"
)

// newWriter returns how a field of type src is merged into one of type dst, or what is wrong and what to do.
func newWriter(tag string, dst, src reflect.Type) (w writer, what, remedy string) {
	switch tag {
	case "", "last", "set":
		w = writer{exclusive: true, merge: assigner(dst), deref: src != dst && src == reflect.PointerTo(dst)}
		if src != dst && !w.deref {
			return w, fmt.Sprintf("its type %s does not fit the state's %s", src, dst), settable(dst)
		}
	case "append":
		w.merge = appender(dst)
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

// assigner returns what copies a value of type t.
func assigner(t reflect.Type) merger {
	switch t.Kind() {
	case reflect.String:
		return func(dst, v unsafe.Pointer) { *(*string)(dst) = *(*string)(v) }
	case reflect.Slice:
		return func(dst, v unsafe.Pointer) {
			// Clipped: appends to the state must not write into an array that the node still holds. Every slice header has the
			// layout of a []byte header.
			*(*[]byte)(dst) = slices.Clip(*(*[]byte)(v))
		}
	default:
		return func(dst, v unsafe.Pointer) { reflect.NewAt(t, dst).Elem().Set(reflect.NewAt(t, v).Elem()) }
	}
}

// appender returns what appends to a slice of type t. It grows in place where the array has room: what others hold of
// that array ends before.
func appender(t reflect.Type) merger {
	return func(dstAt, vAt unsafe.Pointer) {
		dst, v := reflect.NewAt(t, dstAt).Elem(), reflect.NewAt(t, vAt).Elem()
		n, add := dst.Len(), v.Len()
		dst.Grow(add)
		dst.SetLen(n + add)
		for i := range add { // reflect.AppendSlice would allocate a slice header a call
			dst.Index(n + i).Set(v.Index(i))
		}
	}
}
