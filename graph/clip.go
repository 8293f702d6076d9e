package graph

import (
	"reflect"
	"unsafe"
)

// clipper returns the function that cuts the capacity of every slice held directly in an S (in nested structs and
// arrays too) down to its length. A state is handed out once a task, so the offsets are found once a graph.
func clipper[S any]() func(*S) {
	offsets := sliceOffsets(nil, reflect.TypeFor[S](), 0)
	if len(offsets) == 0 {
		return func(*S) {}
	}
	return func(s *S) {
		for _, off := range offsets {
			// Every slice header has the layout of a []byte header, and only the capacity is written: no element is
			// touched, and the pointer stays what it was. Reflection could do the same, but not for unexported fields.
			h := (*[]byte)(unsafe.Add(unsafe.Pointer(s), off)) //nolint:gosec // see above
			*h = (*h)[:len(*h):len(*h)]
		}
	}
}

// sliceOffsets appends where the slices in a value of type t are, which itself is at base.
func sliceOffsets(offsets []uintptr, t reflect.Type, base uintptr) []uintptr {
	switch t.Kind() {
	case reflect.Slice:
		return append(offsets, base)
	case reflect.Struct:
		for f := range t.Fields() {
			offsets = sliceOffsets(offsets, f.Type, base+f.Offset)
		}
	case reflect.Array:
		elem := sliceOffsets(nil, t.Elem(), base) // of the first element; the others are alike
		for i := range t.Len() * min(1, len(elem)) {
			for _, off := range elem {
				offsets = append(offsets, off+uintptr(i)*t.Elem().Size())
			}
		}
	}
	return offsets
}
