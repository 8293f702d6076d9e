package graph

import (
	"fmt"
	"reflect"
	"strings"
)

// Fields folds updates by field name: each exported field of the struct U is merged into the field of the struct S that
// has its name, as its tag says. The plan is built here, once; a mistake in it is reported by Compile.
//
//	`merge:"last"`       the default: the new value; two tasks of one super-step are a *ConflictError
//	`merge:"append"`     slices: behind what is there
//	`merge:"union"`      slices: what is not there yet, in order; maps: new and changed keys (one key with two values in
//	                     one super-step is a conflict)
//	`merge:"max"`, "min" numbers, strings, times: the larger, the smaller; NaN is ignored
//	`merge:"sum"`        numbers: added; integers wrap as Go's do
//	`merge:"set:Notes"`  the new value of the field Notes of S, before the other updates of the super-step are merged into it
//
// A zero value means "not set". To set a zero, make the field a pointer to the type of S's field; an empty slice or map
// that is not nil is a value. A field of S that is a pointer counts as unset for max and min while it is nil.
//
// Merging costs no allocation beyond what the values need; union reads the whole field.
func Fields[S, U any]() Reducer[S, U] {
	s, u := reflect.TypeFor[S](), reflect.TypeFor[U]()
	p := planFields(s, u)
	r := Reducer[S, U]{kind: "fields", fields: describeFields[U](), problems: p.problems}
	if len(p.problems) > 0 {
		return r
	}
	r.apply = func(dst *S, writes []Write[U]) error {
		return p.apply(reflect.ValueOf(dst).Elem(), len(writes),
			func(i int) reflect.Value { return reflect.ValueOf(&writes[i].Update).Elem() },
			func(i int) string { return writes[i].task() })
	}
	return r
}

// fieldPlan says how the fields of U meet those of S.
type fieldPlan struct {
	columns  []*column
	problems []*Problem
}

// column is one field of S with all that writes to it.
type column struct {
	name    string
	index   []int // in S
	typ     reflect.Type
	sets    []writer
	writers []writer // at most one
}

// writer is one field of U.
type writer struct {
	index []int // in U
	deref bool  // the field is a pointer to the value
	// exclusive writers of two tasks conflict.
	exclusive bool
	merge     func(dst, v reflect.Value)
	// union merges all values of a super-step at once and is used in place of merge.
	union func(dst reflect.Value, values []taskValue) (conflict [2]int, ok bool)
}

// taskValue is what one task sets.
type taskValue struct {
	task int
	reflect.Value
}

// value returns what an update sets; false if it sets nothing.
func (w *writer) value(update reflect.Value) (reflect.Value, bool) {
	f := update.FieldByIndex(w.index)
	if f.IsZero() {
		return f, false
	}
	if w.deref {
		f = f.Elem()
	}
	return f, true
}

func (p *fieldPlan) apply(dst reflect.Value, n int, update func(int) reflect.Value, task func(int) string) error {
	for _, c := range p.columns {
		if a, b, ok := c.apply(dst.FieldByIndex(c.index), n, update); !ok {
			return &ConflictError{Field: c.name, Nodes: [2]string{task(a), task(b)}}
		}
	}
	return nil
}

// apply merges one column; if two tasks conflict it returns them and false.
func (c *column) apply(dst reflect.Value, n int, update func(int) reflect.Value) (a, b int, ok bool) {
	owner := -1 // the task that wrote last, once any did
	for _, group := range [2][]writer{c.sets, c.writers} {
		for k := range group {
			w := &group[k]
			if w.union != nil {
				var values []taskValue
				for i := range n {
					if v, set := w.value(update(i)); set {
						values = append(values, taskValue{i, v})
					}
				}
				if pair, ok := w.union(dst, values); !ok {
					return pair[0], pair[1], false
				}
				continue
			}
			for i := range n {
				v, set := w.value(update(i))
				if !set {
					continue
				}
				if w.exclusive {
					if owner >= 0 && owner != i {
						return min(owner, i), max(owner, i), false
					}
					owner = i
				}
				w.merge(dst, v)
			}
		}
	}
	return 0, 0, true
}

func planFields(s, u reflect.Type) *fieldPlan {
	p := &fieldPlan{}
	if s.Kind() != reflect.Struct || u.Kind() != reflect.Struct {
		p.problem("reducer", fmt.Sprintf("graph.Fields merges structs, not %s into %s", u, s),
			"make both structs, or use graph.Replace, graph.Reduce or graph.Merge")
		return p
	}
	byName := map[string]*column{}
	for _, f := range reflect.VisibleFields(u) {
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			continue // its fields are visited as if they stood in U
		}
		p.field(s, u, f, byName)
	}
	return p
}

func (p *fieldPlan) field(s, u reflect.Type, f reflect.StructField, byName map[string]*column) {
	where := fmt.Sprintf("field %q of update %s", f.Name, u)
	if !f.IsExported() {
		p.problem(where, "it is not exported, so graph.Fields cannot read it", "export or remove it")
		return
	}
	if throughPointer(u, f.Index) {
		p.problem(where, "it is reached through an embedded pointer", "embed the struct itself")
		return
	}
	tag := f.Tag.Get("merge")
	target := f.Name
	if name, ok := strings.CutPrefix(tag, "set:"); ok {
		tag, target = "set", name
	}
	sf, ok := s.FieldByName(target)
	if !ok || !sf.IsExported() || throughPointer(s, sf.Index) {
		p.problem(where, fmt.Sprintf("state %s has no exported field %q to merge it into", s, target),
			"add the field to the state, rename this one, or name the state's field with `merge:\"set:Name\"`")
		return
	}
	w, what, remedy := newWriter(tag, sf.Type, f.Type)
	if what != "" {
		p.problem(where, what, remedy)
		return
	}
	w.index = f.Index
	c := byName[target]
	if c == nil {
		c = &column{name: target, index: sf.Index, typ: sf.Type}
		byName[target] = c
		p.columns = append(p.columns, c)
	}
	if tag == "set" {
		// A set meets appends before they are made; beside a plain value it is one more write of the same field.
		c.sets = append(c.sets, w)
		return
	}
	c.writers = append(c.writers, w)
}

// throughPointer reports whether a field is promoted through an embedded pointer, which may be nil.
func throughPointer(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if t = t.Field(i).Type; t.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

func (p *fieldPlan) problem(where, what, remedy string) {
	p.problems = append(p.problems, &Problem{Where: where, What: what, Remedy: remedy})
}

// describeFields lists the fields of a type for the fingerprint: name, type and tag.
func describeFields[T any]() []string {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return []string{typeString(t)}
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		out = append(out, f.Name+" "+typeString(f.Type)+" "+f.Tag.Get("merge"))
	}
	return out
}
