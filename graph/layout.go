package graph

import (
	"reflect"
	"unsafe"
)

// updates are those of one super-step, by task, as they lie in memory. Most fields of most updates are not set: to find
// that out with reflection would be most of what a super-step costs.
type updates struct {
	n      int
	first  unsafe.Pointer
	stride uintptr
}

func updatesOf[U any](writes []Write[U]) updates {
	if len(writes) == 0 {
		return updates{}
	}
	return updates{n: len(writes), first: pointerTo(&writes[0].Update), stride: unsafe.Sizeof(writes[0])}
}

func (u updates) at(i int) unsafe.Pointer { return unsafe.Add(u.first, uintptr(i)*u.stride) }

// value returns where the value lies that an update sets; nil if it sets nothing.
func (w *writer) value(update unsafe.Pointer) unsafe.Pointer {
	field := unsafe.Add(update, w.offset)
	switch {
	case !w.isSet(field):
		return nil
	case w.deref:
		return *(*unsafe.Pointer)(field)
	}
	return field
}

// reflected is value for those who need its type.
func (w *writer) reflected(update unsafe.Pointer) (v reflect.Value, set bool) {
	at := w.value(update)
	if at == nil {
		return v, false
	}
	return reflect.NewAt(w.typ, at).Elem(), true
}

// pointerTo forgets the type of what p points to. The plan of the fields has been made for that type.
func pointerTo[T any](p *T) unsafe.Pointer {
	return unsafe.Pointer(p) //nolint:gosec // see above
}

// setChecker returns what tells whether a field of type t holds anything but its zero value.
func setChecker(t reflect.Type) func(unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		// The first word of a nil one is nil: the pointer itself, or that to a slice's array.
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) != nil }
	case reflect.String:
		return func(p unsafe.Pointer) bool { return *(*string)(p) != "" }
	case reflect.Int, reflect.Uint:
		return func(p unsafe.Pointer) bool { return *(*uint)(p) != 0 }
	case reflect.Int64, reflect.Uint64, reflect.Float64:
		return func(p unsafe.Pointer) bool { return *(*uint64)(p) != 0 }
	case reflect.Bool:
		return func(p unsafe.Pointer) bool { return *(*bool)(p) }
	default:
		return func(p unsafe.Pointer) bool { return !reflect.NewAt(t, p).Elem().IsZero() }
	}
}

// offsetOf is where a field lies in a struct, however deep it is embedded.
func offsetOf(t reflect.Type, index []int) (offset uintptr) {
	for _, i := range index {
		f := t.Field(i)
		offset += f.Offset
		t = f.Type
	}
	return offset
}
