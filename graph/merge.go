package graph

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
)

// newWriter returns how a field of type src is merged into one of type dst, or what is wrong and what to do.
func newWriter(tag string, dst, src reflect.Type) (w writer, what, remedy string) {
	switch tag {
	case "", "last", "set":
		w = writer{exclusive: true, merge: assign, deref: src != dst && src == reflect.PointerTo(dst)}
		if src != dst && !w.deref {
			return w, fmt.Sprintf("its type %s does not fit the state's %s", src, dst), fmt.Sprintf("make it %s, or *%s to be able to set a zero", dst, dst)
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

func newUnion(dst, src reflect.Type) (w writer, what, remedy string) {
	switch {
	case src != dst || (src.Kind() != reflect.Slice && src.Kind() != reflect.Map):
		return w, misfit("union", src, dst), "union takes the same slice or map type on both sides"
	case src.Kind() == reflect.Map:
		w.union = uniteMaps
	case !strictlyComparable(src.Elem()):
		return w, misfit("union", src, dst) + ", whose elements cannot be compared", "use elements that == can compare without a panic, or append"
	default:
		w.union = uniteSlices
	}
	return w, "", ""
}

// strictlyComparable reports whether == on the type can never panic.
func strictlyComparable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return false
	case reflect.Array:
		return strictlyComparable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !strictlyComparable(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return t.Comparable()
}

func uniteSlices(dst reflect.Value, values []taskValue) (conflict [2]int, ok bool) {
	var seen map[any]bool
	for _, v := range values {
		if dst.IsNil() {
			dst.Set(reflect.MakeSlice(dst.Type(), 0, v.Len())) // set to an empty slice is set
		}
		if seen == nil {
			seen = make(map[any]bool, dst.Len()+v.Len())
			for k := range dst.Len() {
				seen[dst.Index(k).Interface()] = true
			}
		}
		for k := range v.Len() {
			if e := v.Index(k); !seen[e.Interface()] {
				seen[e.Interface()] = true
				n := dst.Len()
				dst.Grow(1)
				dst.SetLen(n + 1)
				dst.Index(n).Set(e)
			}
		}
	}
	return conflict, true
}

// uniteMaps puts new and changed keys into a copy, since tasks may still read the map that is there.
func uniteMaps(dst reflect.Value, values []taskValue) (conflict [2]int, ok bool) {
	if len(values) == 0 {
		return conflict, true
	}
	fresh, owner := cloneMap(dst), map[any]int{} // owner: by key, the task that wrote it
	for _, v := range values {
		for iter := v.MapRange(); iter.Next(); {
			key := iter.Key().Interface()
			if by, taken := owner[key]; taken && !reflect.DeepEqual(fresh.MapIndex(iter.Key()).Interface(), iter.Value().Interface()) {
				return [2]int{by, v.task}, false
			}
			owner[key] = v.task
			fresh.SetMapIndex(iter.Key(), iter.Value())
		}
	}
	dst.Set(fresh)
	return conflict, true
}

func cloneMap(m reflect.Value) reflect.Value {
	fresh := reflect.MakeMapWithSize(m.Type(), m.Len())
	for iter := m.MapRange(); iter.Next(); {
		fresh.SetMapIndex(iter.Key(), iter.Value())
	}
	return fresh
}

// newNumeric serves max, min and sum. Either side may be a pointer; a nil one in the state is no value yet.
func newNumeric(tag string, dst, src reflect.Type) (w writer, what, remedy string) {
	base := dst
	if dst.Kind() == reflect.Pointer {
		base = dst.Elem()
	}
	w.deref = src == reflect.PointerTo(base)
	if src != base && !w.deref {
		return w, misfit(tag, src, dst), fmt.Sprintf("make it %s, or *%s to be able to set a zero", base, base)
	}
	var combine func(dst, v reflect.Value)
	switch {
	case tag == "sum":
		combine = adder(base.Kind())
		remedy = "sum takes integers, floats and complex numbers"
	default:
		if compare := comparer(base); compare != nil {
			sign := 1
			if tag == "min" {
				sign = -1
			}
			combine = func(dst, v reflect.Value) {
				if !isNaN(v) && (isNaN(dst) || sign*compare(v, dst) > 0) {
					dst.Set(v)
				}
			}
		}
		remedy = tag + " takes integers, floats, strings and time.Time"
	}
	if combine == nil {
		return w, misfit(tag, src, dst), remedy
	}
	w.merge = combine
	if dst.Kind() == reflect.Pointer {
		w.merge = throughFreshPointer(combine)
	}
	return w, "", ""
}

// throughFreshPointer leaves what the old pointer points to alone: tasks may still read it.
func throughFreshPointer(combine func(dst, v reflect.Value)) func(dst, v reflect.Value) {
	return func(dst, v reflect.Value) {
		fresh := reflect.New(dst.Type().Elem())
		if dst.IsNil() {
			fresh.Elem().Set(v)
		} else {
			fresh.Elem().Set(dst.Elem())
			combine(fresh.Elem(), v)
		}
		dst.Set(fresh)
	}
}

func isNaN(v reflect.Value) bool { return v.CanFloat() && math.IsNaN(v.Float()) }

func adder(k reflect.Kind) func(dst, v reflect.Value) {
	switch {
	case isInt(k):
		return func(dst, v reflect.Value) { dst.SetInt(dst.Int() + v.Int()) }
	case isUint(k):
		return func(dst, v reflect.Value) { dst.SetUint(dst.Uint() + v.Uint()) }
	case k == reflect.Float32 || k == reflect.Float64:
		return func(dst, v reflect.Value) { dst.SetFloat(dst.Float() + v.Float()) }
	case k == reflect.Complex64 || k == reflect.Complex128:
		return func(dst, v reflect.Value) { dst.SetComplex(dst.Complex() + v.Complex()) }
	}
	return nil
}

func comparer(t reflect.Type) func(a, b reflect.Value) int {
	switch k := t.Kind(); {
	case isInt(k):
		return func(a, b reflect.Value) int { return cmp.Compare(a.Int(), b.Int()) }
	case isUint(k):
		return func(a, b reflect.Value) int { return cmp.Compare(a.Uint(), b.Uint()) }
	case k == reflect.Float32 || k == reflect.Float64:
		return func(a, b reflect.Value) int { return cmp.Compare(a.Float(), b.Float()) }
	case k == reflect.String:
		return func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }
	case t == reflect.TypeFor[time.Time]():
		return func(a, b reflect.Value) int {
			return a.Interface().(time.Time).Compare(b.Interface().(time.Time))
		}
	}
	return nil
}

func isInt(k reflect.Kind) bool {
	return slices.Contains([]reflect.Kind{reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64}, k)
}

func isUint(k reflect.Kind) bool {
	return slices.Contains([]reflect.Kind{reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr}, k)
}
