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

func takePicture[S any](s *S) picture {
	name := reflect.TypeFor[S]().Name()
	if name == "" {
		name = "state"
	}
	p := photographer{seen: map[visit]bool{}}
	p.walk(name, reflect.ValueOf(s).Elem())
	return p.leaves
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

// visit is a pointer that was followed; states may be cyclic.
type visit struct {
	ptr uintptr
	typ reflect.Type
}

func (p *photographer) walk(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			p.walk(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		p.add(path, v.Len())
		for i := range v.Len() {
			p.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		p.add(path, v.Len())
		p.walkMap(path, v)
	case reflect.Pointer, reflect.Interface:
		p.follow(path, v)
	default:
		p.add(path, v) // fmt prints what a reflect.Value holds, of unexported fields too
	}
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
	if v.Kind() == reflect.Pointer {
		at := visit{v.Pointer(), v.Type()}
		if p.seen[at] {
			return
		}
		p.seen[at] = true
	}
	p.walk(path, v.Elem())
}

func (p *photographer) add(path string, value any) {
	p.leaves = append(p.leaves, leaf{path, fmt.Sprint(value)})
}
