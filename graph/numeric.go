package graph

import (
	"cmp"
	"math"
	"reflect"
	"time"
)

// newNumeric serves max, min and sum. Either side may be a pointer; a nil one in the state is no value yet.
func newNumeric(tag string, dst, src reflect.Type) (w writer, what, remedy string) {
	base := dst
	if dst.Kind() == reflect.Pointer {
		base = dst.Elem()
	}
	w.merge, remedy = combiner(tag, base)
	if w.merge == nil {
		return w, misfit(tag, src, dst), remedy
	}
	w.deref = src == reflect.PointerTo(base)
	if src != base && !w.deref {
		return w, misfit(tag, src, dst), settable(base)
	}
	if dst.Kind() == reflect.Pointer {
		w.merge = throughFreshPointer(w.merge)
	}
	if tag != "sum" {
		w.merge = withoutNaN(w.merge)
	}
	return w, "", ""
}

// combiner returns what merges a value into one of the same type, or nil and which types it takes.
func combiner(tag string, t reflect.Type) (merge func(dst, v reflect.Value), takes string) {
	if tag == "sum" {
		return adder(t.Kind()), "sum takes integers, floats and complex numbers"
	}
	compare := comparer(t)
	if compare == nil {
		return nil, tag + " takes integers, floats, strings and time.Time"
	}
	sign := 1
	if tag == "min" {
		sign = -1
	}
	return func(dst, v reflect.Value) {
		if isNaN(dst) || sign*compare(v, dst) > 0 {
			dst.Set(v)
		}
	}, ""
}

// throughFreshPointer leaves what the old pointer points to alone: tasks may still read it.
func throughFreshPointer(merge func(dst, v reflect.Value)) func(dst, v reflect.Value) {
	return func(dst, v reflect.Value) {
		fresh := reflect.New(dst.Type().Elem())
		if dst.IsNil() {
			fresh.Elem().Set(v)
		} else {
			fresh.Elem().Set(dst.Elem())
			merge(fresh.Elem(), v)
		}
		dst.Set(fresh)
	}
}

func withoutNaN(merge func(dst, v reflect.Value)) func(dst, v reflect.Value) {
	return func(dst, v reflect.Value) {
		if !isNaN(v) {
			merge(dst, v)
		}
	}
}

func isNaN(v reflect.Value) bool { return v.CanFloat() && math.IsNaN(v.Float()) }

func adder(k reflect.Kind) func(dst, v reflect.Value) {
	switch {
	case isInt(k):
		return func(dst, v reflect.Value) { dst.SetInt(dst.Int() + v.Int()) }
	case isUint(k):
		return func(dst, v reflect.Value) { dst.SetUint(dst.Uint() + v.Uint()) }
	case isFloat(k):
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
	case isFloat(k):
		return func(a, b reflect.Value) int { return cmp.Compare(a.Float(), b.Float()) }
	case k == reflect.String:
		return func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }
	case t == reflect.TypeFor[time.Time]():
		return func(a, b reflect.Value) int { return timeAt(a).Compare(*timeAt(b)) }
	}
	return nil
}

// timeAt points to the time that v, an addressable value, holds: a copy would be boxed.
func timeAt(v reflect.Value) *time.Time {
	return v.Addr().Interface().(*time.Time) //nolint:forcetypeassert // comparer has seen to the type
}

func isInt(k reflect.Kind) bool   { return reflect.Int <= k && k <= reflect.Int64 }
func isUint(k reflect.Kind) bool  { return reflect.Uint <= k && k <= reflect.Uintptr }
func isFloat(k reflect.Kind) bool { return k == reflect.Float32 || k == reflect.Float64 }
