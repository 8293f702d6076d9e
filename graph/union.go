package graph

import (
	"cmp"
	"fmt"
	"reflect"
)

func newUnion(dst, src reflect.Type) (w writer, what, remedy string) {
	switch {
	case src != dst || (src.Kind() != reflect.Slice && src.Kind() != reflect.Map):
		return w, misfit("union", src, dst), "union takes the same slice or map type on both sides"
	case src.Kind() == reflect.Map:
		w.union = uniteMaps
	case !strictlyComparable(src.Elem()):
		return w, misfit("union", src, dst) + ", whose elements cannot be compared",
			"use elements that == can compare without a panic, or append"
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
		for f := range t.Fields() {
			if !strictlyComparable(f.Type) {
				return false
			}
		}
		return true
	default:
		return t.Comparable()
	}
}

// uniteSlices appends what is not there yet.
func uniteSlices(dst reflect.Value, w *writer, u updates) *clash {
	var seen map[any]bool
	for i := range u.n {
		v, set := w.reflected(u.at(i))
		if !set {
			continue
		}
		if seen == nil {
			seen = make(map[any]bool, dst.Len()+v.Len())
			for k := range dst.Len() {
				seen[dst.Index(k).Interface()] = true
			}
		}
		if dst.IsNil() {
			dst.Set(reflect.MakeSlice(dst.Type(), 0, v.Len())) // set to an empty slice is set
		}
		for k := range v.Len() {
			e := v.Index(k)
			if key := e.Interface(); !seen[key] {
				seen[key] = true
				n := dst.Len()
				dst.Grow(1)
				dst.SetLen(n + 1)
				dst.Index(n).Set(e)
			}
		}
	}
	return nil
}

// uniteMaps puts new and changed keys into a copy, since tasks may still read the map that is there.
func uniteMaps(dst reflect.Value, w *writer, u updates) *clash {
	var fresh reflect.Value
	owner := map[any]int{} // by key, the task that wrote it
	for i := range u.n {
		v, set := w.reflected(u.at(i))
		if !set {
			continue
		}
		if !fresh.IsValid() {
			fresh = cloneMap(dst)
		}
		if clash := putAll(fresh, v, i, owner); clash != nil {
			return clash
		}
	}
	if fresh.IsValid() {
		dst.Set(fresh)
	}
	return nil
}

// putAll puts task i's entries into m. Of several clashes it returns the one with the first task and then the least key:
// maps have no order, but the same updates must fail with the same error.
func putAll(m, entries reflect.Value, i int, owner map[any]int) *clash {
	var first *clash
	for iter := entries.MapRange(); iter.Next(); {
		key := iter.Key().Interface()
		by, taken := owner[key]
		if taken && !reflect.DeepEqual(m.MapIndex(iter.Key()).Interface(), iter.Value().Interface()) {
			c := &clash{a: by, b: i, key: cmp.Or(fmt.Sprint(key), `""`)}
			if first == nil || c.a < first.a || c.a == first.a && c.key < first.key {
				first = c
			}
			continue
		}
		owner[key] = i
		m.SetMapIndex(iter.Key(), iter.Value())
	}
	return first
}

func cloneMap(m reflect.Value) reflect.Value {
	fresh := reflect.MakeMapWithSize(m.Type(), m.Len())
	for iter := m.MapRange(); iter.Next(); {
		fresh.SetMapIndex(iter.Key(), iter.Value())
	}
	return fresh
}
