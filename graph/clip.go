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
			h := (*[]byte)(unsafe.Add(unsafe.Pointer(s), off))
			*h = (*h)[:len(*h):len(*h)]
		}
	}
}

func sliceOffsets(offsets []uintptr, t reflect.Type, base uintptr) []uintptr {
	switch t.Kind() {
	case reflect.Slice:
		return append(offsets, base)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			offsets = sliceOffsets(offsets, f.Type, base+f.Offset)
		}
	case reflect.Array:
		for i := range t.Len() {
			offsets = sliceOffsets(offsets, t.Elem(), base+uintptr(i)*t.Elem().Size())
		}
	}
	return offsets
}
