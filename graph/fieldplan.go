package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// fieldPlan says how the fields of U meet those of S.
type fieldPlan struct {
	problems

	s, u    reflect.Type
	columns []*column
}

func planFields(s, u reflect.Type) *fieldPlan {
	p := &fieldPlan{s: s, u: u}
	if s.Kind() != reflect.Struct || u.Kind() != reflect.Struct {
		p.problem("reducer", fmt.Sprintf("graph.Fields merges structs, not %s into %s", u, s),
			"make both structs, or use graph.Replace, graph.Reduce or graph.Merge")
		return p
	}
	for _, f := range leaves(u, nil) {
		if f.Name != "_" {
			p.field(f)
		}
	}
	p.overlaps()
	return p
}

// leaves lists the fields of a struct, those of embedded structs in their place. Their indexes start at t if prefix is
// nil.
func leaves(t reflect.Type, prefix []int) []reflect.StructField {
	var out []reflect.StructField
	for f := range t.Fields() {
		f.Index = slices.Concat(prefix, f.Index)
		if f.Anonymous && f.Type.Kind() == reflect.Struct && f.Tag.Get("merge") == "" {
			out = append(out, leaves(f.Type, f.Index)...)
			continue
		}
		out = append(out, f)
	}
	return out
}

// field plans a field of U.
func (p *fieldPlan) field(f reflect.StructField) {
	where := fmt.Sprintf("field %q of update %s", f.Name, p.u)
	tag := f.Tag.Get("merge")
	if what, remedy := p.unusable(f); what != "" {
		p.problem(where, what, remedy)
		return
	}
	target := f.Name
	if name, ok := strings.CutPrefix(tag, "set:"); ok {
		tag, target = "set", name
	}
	sf, ok := p.s.FieldByName(target)
	if !ok || !sf.IsExported() || throughPointer(p.s, sf.Index) {
		p.problem(where, fmt.Sprintf("state %s has no exported field %q to merge it into", p.s, target),
			"add the field to the state, rename this one, or name the state's field with `merge:\"set:Name\"`")
		return
	}
	w, what, remedy := newWriter(tag, sf.Type, f.Type)
	if what != "" {
		p.problem(where, what, remedy)
		return
	}
	w.offset, w.typ, w.isSet = offsetOf(p.u, f.Index), f.Type, setChecker(f.Type)
	c := p.column(target, sf.Index)
	switch {
	case tag != "set":
		c.merge = &w // no other field of U has this name
	case c.set != nil:
		p.problem(where, fmt.Sprintf("another field sets %q, too", target), "keep one of them")
	default:
		c.set = &w
	}
}

// unusable says why a field of U cannot be merged whatever S is.
func (p *fieldPlan) unusable(f reflect.StructField) (what, remedy string) {
	embedded := f.Anonymous && (f.Type.Kind() == reflect.Struct ||
		f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct)
	seen, ok := p.u.FieldByName(f.Name)
	switch {
	case embedded && f.Type.Kind() == reflect.Pointer:
		return "it is an embedded pointer, which may be nil", "embed the struct itself, or give the field a name"
	case embedded:
		return "it is an embedded struct with a merge tag", "tag the fields of the struct, or give the field a name"
	case !f.IsExported():
		return "it is not exported, so graph.Fields cannot read it", "export or remove it"
	case !ok || !slices.Equal(seen.Index, f.Index):
		return "another field of its name hides it", "rename one of them"
	}
	return "", ""
}

// column returns the column of a field of S.
func (p *fieldPlan) column(name string, index []int) *column {
	for _, c := range p.columns {
		if slices.Equal(c.index, index) {
			return c
		}
	}
	c := &column{name: name, index: index, offset: offsetOf(p.s, index), typ: p.s.FieldByIndex(index).Type}
	p.columns = append(p.columns, c)
	return c
}

// overlaps reports columns that lie within others: what one of them sets the other would change.
func (p *fieldPlan) overlaps() {
	for _, outer := range p.columns {
		for _, inner := range p.columns {
			if n := len(outer.index); n < len(inner.index) && slices.Equal(outer.index, inner.index[:n]) {
				p.problem(fmt.Sprintf("update %s", p.u),
					fmt.Sprintf("it has %q as well as %q, which in state %s is a part of it", outer.name, inner.name, p.s),
					"keep one of them")
			}
		}
	}
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
