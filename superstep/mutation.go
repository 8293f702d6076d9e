package superstep

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
)

// picture is a deep picture of a state, to find out later whether somebody has changed it: one line for each leaf.
type picture []leaf

type leaf struct{ path, value string }

// takePicture pictures a state, which in a subgraph is boxed.
func takePicture(s any) picture {
	p := photographer{seen: map[visit]bool{}}
	v := reflect.ValueOf(s)
	name := "state"
	if v.IsValid() && v.Type().Name() != "" {
		name = v.Type().Name()
	}
	p.walk(name, v)
	return p.leaves
}

// check sets *err if the state that was pictured has changed since.
func (p picture) check(a *attempt, s any, err *error) {
	if path := p.difference(takePicture(s)); path != "" {
		*err = &MutationError{Node: a.pathOf(a.at.node.Name), Path: path}
	}
}

// difference returns the path of the first leaf that two pictures do not share, or "".
func (p picture) difference(q picture) string {
	for i := range min(len(p), len(q)) {
		if p[i] != q[i] {
			return p[i].path
		}
	}
	switch {
	case len(p) > len(q):
		return p[len(q)].path
	case len(q) > len(p):
		return q[len(p)].path
	}
	return ""
}

type photographer struct {
	leaves picture
	seen   map[visit]bool
}

// visit is what was followed: states may be cyclic, through pointers, maps and slices.
type visit struct {
	ptr uintptr
	len int
	typ reflect.Type
}

// again reports whether v, which refers to something, has been followed before.
func (p *photographer) again(v reflect.Value) bool {
	at := visit{ptr: v.Pointer(), typ: v.Type()}
	if v.Kind() == reflect.Slice {
		at.len = v.Len()
	}
	known := p.seen[at]
	p.seen[at] = true
	return known
}

func (p *photographer) walk(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
		p.add(path, "nil")
	case reflect.Struct:
		for i := range v.NumField() {
			p.walk(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		p.add(path, v.Len())
		v = v.Slice(0, v.Cap()) // who appends to a slice inside a slice writes behind its length
		if v.Cap() == 0 || p.again(v) {
			return
		}
		for i := range v.Len() {
			p.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			p.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		p.add(path, v.Len())
		if v.Len() > 0 && !p.again(v) {
			p.walkMap(path, v)
		}
	case reflect.Pointer, reflect.Interface:
		p.follow(path, v)
	default:
		p.add(path, scalar(v))
	}
}

// scalar is a value that fmt prints without asking a method of the user's type.
func scalar(v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.CanInt():
		return v.Int()
	case v.CanUint():
		return v.Uint()
	case v.CanFloat():
		return v.Float()
	case v.CanComplex():
		return v.Complex()
	case v.Kind() == reflect.String:
		return v.String()
	}
	return v.Pointer() // a function or a channel
}

func (p *photographer) walkMap(path string, v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, k := range keys {
		p.walk(fmt.Sprintf("%s[%v]", path, k), v.MapIndex(k))
	}
}

func (p *photographer) follow(path string, v reflect.Value) {
	if v.IsNil() {
		p.add(path, "nil")
		return
	}
	if v.Kind() == reflect.Pointer && p.again(v) {
		return
	}
	if v.Kind() == reflect.Interface {
		p.add(path, v.Elem().Type()) // values of two types may print alike
	}
	p.walk(path, v.Elem())
}

func (p *photographer) add(path string, value any) {
	p.leaves = append(p.leaves, leaf{path, fmt.Sprint(value)})
}
