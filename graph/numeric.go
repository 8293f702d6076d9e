package graph

import (
	"cmp"
	"reflect"
	"time"
	"unsafe"
)

// newNumeric serves max, min and sum. Either side may be a pointer; a nil one in the state is no value yet.
func newNumeric(tag string, dst, src reflect.Type) (w writer, what, remedy string) {
	base := dst
	if dst.Kind() == reflect.Pointer {
		base = dst.Elem()
	}
	ops := opsOf(base)
	remedy = tag + " takes integers, floats, strings and time.Time"
	switch tag {
	case "max":
		w.merge = ops.max
	case "min":
		w.merge = ops.min
	default:
		w.merge, remedy = ops.sum, "sum takes integers, floats and complex numbers"
	}
	if w.merge == nil {
		return w, misfit(tag, src, dst), remedy
	}
	w.deref = src == reflect.PointerTo(base)
	if src != base && !w.deref {
		return w, misfit(tag, src, dst), settable(base)
	}
	if dst.Kind() == reflect.Pointer {
		w.merge = throughFreshPointer(base, w.merge, tag != "sum")
	}
	return w, "", ""
}

// merger merges the value at v into that at dst. Both point to values of the type it was made for.
type merger = func(dst, v unsafe.Pointer)

// throughFreshPointer leaves what the old pointer points to alone: tasks may still read it. A NaN is no value to begin with
// where it is to be ignored.
func throughFreshPointer(t reflect.Type, merge merger, ignoreNaN bool) merger {
	assign := assigner(t)
	return func(dst, v unsafe.Pointer) {
		at := (*unsafe.Pointer)(dst)
		if ignoreNaN && isNaN(t, v) {
			return
		}
		fresh := reflect.New(t).UnsafePointer()
		if *at == nil {
			assign(fresh, v)
		} else {
			assign(fresh, *at)
			merge(fresh, v)
		}
		*at = fresh
	}
}

func isNaN(t reflect.Type, v unsafe.Pointer) bool {
	if t.Kind() != reflect.Float32 && t.Kind() != reflect.Float64 {
		return false
	}
	f := reflect.NewAt(t, v).Elem().Float()
	return f != f // only NaN is not equal to itself
}

// ops are the mergers of one type; nil where a tag does not serve it.
type ops struct{ sum, max, min merger }

func opsOf(t reflect.Type) ops {
	switch t.Kind() {
	case reflect.Int:
		return number[int]()
	case reflect.Int8:
		return number[int8]()
	case reflect.Int16:
		return number[int16]()
	case reflect.Int32:
		return number[int32]()
	case reflect.Int64:
		return number[int64]()
	case reflect.Uint:
		return number[uint]()
	case reflect.Uint8:
		return number[uint8]()
	case reflect.Uint16:
		return number[uint16]()
	case reflect.Uint32:
		return number[uint32]()
	case reflect.Uint64:
		return number[uint64]()
	case reflect.Uintptr:
		return number[uintptr]()
	case reflect.Float32:
		return number[float32]()
	case reflect.Float64:
		return number[float64]()
	case reflect.Complex64:
		return ops{sum: sum[complex64]}
	case reflect.Complex128:
		return ops{sum: sum[complex128]}
	case reflect.String:
		return ordered(cmp.Compare[string])
	}
	if t == reflect.TypeFor[time.Time]() {
		return ordered(time.Time.Compare)
	}
	return ops{}
}

type realNumber interface {
	int | int8 | int16 | int32 | int64 | uint | uint8 | uint16 | uint32 | uint64 | uintptr | float32 | float64
}

func number[T realNumber]() ops {
	o := ordered(cmp.Compare[T])
	o.sum = sum[T]
	return o
}

func sum[T realNumber | complex64 | complex128](dst, v unsafe.Pointer) { *(*T)(dst) += *(*T)(v) }

// ordered makes max and min of a comparison. A NaN never replaces a value, and any value replaces a NaN.
func ordered[T comparable](compare func(a, b T) int) ops {
	pick := func(sign int) merger {
		return func(dst, v unsafe.Pointer) {
			old, fresh := (*T)(dst), *(*T)(v)
			isNaN, wasNaN := fresh != fresh, *old != *old //nolint:gocritic // only NaN is not equal to itself
			if !isNaN && (wasNaN || sign*compare(fresh, *old) > 0) {
				*old = fresh
			}
		}
	}
	return ops{max: pick(1), min: pick(-1)}
}
