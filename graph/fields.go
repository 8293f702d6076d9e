package graph

import (
	"reflect"
	"slices"
	"unsafe"
)

// Fields folds updates by field name: each exported field of the struct U is merged into the field of the struct S that
// has its name, as its tag says. The plan is built here, once; a mistake in it is reported by Compile.
//
//	`merge:"last"`       the default: the new value; two tasks of one super-step are a *ConflictError
//	`merge:"append"`     slices: behind what is there
//	`merge:"union"`      slices: what is not there yet, in order (NaN is never there); maps: new and changed keys (one key
//	                     with two values in one super-step is a conflict)
//	`merge:"max"`, "min" numbers, strings, times: the larger, the smaller; NaN is ignored
//	`merge:"sum"`        numbers: added; integers wrap as Go's do
//	`merge:"set:Notes"`  the new value of the field Notes of S, before the other updates of the super-step are merged into it
//
// A zero value means "not set". To set a zero, make the field a pointer to the type of S's field; an empty slice or map
// that is not nil is a value. A field of S that is a pointer counts as unset for max and min while it is nil. The fields of
// an embedded struct count as fields of S and U.
//
// Merging costs no allocation beyond what the values need; union reads the whole field. It writes to nothing that a node
// still holds: slices grow behind what was handed out, maps and what pointers point to are copied.
func Fields[S, U any]() Reducer[S, U] {
	p := planFields(reflect.TypeFor[S](), reflect.TypeFor[U]())
	r := Reducer[S, U]{kind: "fields", problems: p.problems, safe: !p.compares()}
	if len(p.list) > 0 {
		return r
	}
	r.apply = func(dst *S, writes []Write[U]) error {
		if c, clash := p.apply(pointerTo(dst), updatesOf(writes)); clash != nil {
			return &ConflictError{Field: c.name, Key: clash.key, Nodes: [2]string{writes[clash.a].task(), writes[clash.b].task()}}
		}
		return nil
	}
	return r
}

// column is one field of S with all that writes to it.
type column struct {
	name   string
	index  []int
	offset uintptr
	typ    reflect.Type
	set    *writer // comes first; nil if no field of U sets it
	merge  *writer // nil if no field of U is merged into it
}

// writer is one field of U.
type writer struct {
	offset uintptr
	typ    reflect.Type
	isSet  func(field unsafe.Pointer) bool
	deref  bool // the field is a pointer to the value
	// exclusive writers of two tasks conflict.
	exclusive bool
	merge     merger
	// union merges all updates at once and is used in place of merge.
	union func(dst reflect.Value, w *writer, u updates) *clash
}

// clash is two tasks that wrote what only one may write, and the key if that was an entry of a map.
type clash struct {
	a, b int
	key  string
}

// apply merges all columns. If two tasks clash it returns the column, too.
func (p *fieldPlan) apply(state unsafe.Pointer, u updates) (*column, *clash) {
	if u.n == 1 {
		p.applyOne(state, u)
		return nil, nil
	}
	for _, c := range p.columns {
		dst := unsafe.Add(state, c.offset)
		owner := -1 // the task that wrote last, once any did
		if c.set != nil {
			if clash := c.set.apply(dst, u, &owner); clash != nil {
				return c, clash
			}
		}
		if w := c.merge; w != nil {
			if w.union != nil {
				if clash := w.union(reflect.NewAt(c.typ, dst).Elem(), w, u); clash != nil {
					return c, clash
				}
			} else if clash := w.apply(dst, u, &owner); clash != nil {
				return c, clash
			}
		}
	}
	return nil, nil
}

// compares reports whether values are compared that may be of types that cannot be, which panics.
func (p *fieldPlan) compares() bool {
	return slices.ContainsFunc(p.columns, func(c *column) bool { return c.merge != nil && c.merge.union != nil })
}

// applyOne merges a single update, which clashes with none.
func (p *fieldPlan) applyOne(state unsafe.Pointer, u updates) {
	for _, c := range p.columns {
		dst := unsafe.Add(state, c.offset)
		if w := c.set; w != nil {
			if v := w.value(u.first); v != nil {
				w.merge(dst, v)
			}
		}
		switch w := c.merge; {
		case w == nil:
		case w.union != nil:
			_ = w.union(reflect.NewAt(c.typ, dst).Elem(), w, u)
		default:
			if v := w.value(u.first); v != nil {
				w.merge(dst, v)
			}
		}
	}
}

// apply merges the values one by one, in task order.
func (w *writer) apply(dst unsafe.Pointer, u updates, owner *int) *clash {
	for i := range u.n {
		v := w.value(u.at(i))
		if v == nil {
			continue
		}
		if w.exclusive {
			if *owner >= 0 && *owner != i {
				return &clash{a: min(*owner, i), b: max(*owner, i)}
			}
			*owner = i
		}
		w.merge(dst, v)
	}
	return nil
}
