package journal

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxFaultSearch bounds how many values are looked at for a fault.
const maxFaultSearch = 1 << 20

// fault is what json.Marshal could not write.
type fault struct {
	path, kind, reason string
	err                error
}

// faultFinder walks a value as encoding/json does.
type faultFinder struct {
	path []string
	in   map[any]bool // pointers, maps and slices around the present value
	left int
}

// findFault returns the first fault in v, nil if there is none to be found.
func findFault(root string, v any) (found *fault) {
	f := &faultFinder{path: []string{root}, in: map[any]bool{}, left: maxFaultSearch}
	found, _ = tryAsk(func() *fault { return f.value(reflect.ValueOf(v)) })
	return found
}

func rootName(v any) string {
	t := reflect.TypeOf(v)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Name() == "" {
		return "value"
	}
	return t.Name()
}

func (f *faultFinder) fault(v reflect.Value, reason string) *fault {
	return &fault{path: strings.Join(f.path, ""), kind: v.Type().String(), reason: reason}
}

// at looks at a part of the value.
func (f *faultFinder) at(step string, v reflect.Value) *fault {
	f.path = append(f.path, step)
	defer func() { f.path = f.path[:len(f.path)-1] }()
	return f.value(v)
}

func (f *faultFinder) value(v reflect.Value) *fault {
	if f.left--; f.left < 0 || !v.IsValid() {
		return nil
	}
	if found, is := f.marshaler(v); is {
		return found
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if n := v.Float(); math.IsNaN(n) || math.IsInf(n, 0) {
			return f.fault(v, strconv.FormatFloat(n, 'g', -1, 64))
		}
	case reflect.Chan:
		return f.fault(v, "a channel")
	case reflect.Func:
		return f.fault(v, "a function")
	case reflect.Complex64, reflect.Complex128:
		return f.fault(v, "a complex number")
	case reflect.UnsafePointer:
		return f.fault(v, "an unsafe pointer")
	case reflect.String:
		if v.Type() == reflect.TypeFor[json.Number]() && v.Len() > 0 && !json.Valid([]byte(v.String())) {
			return f.fault(v, "no number")
		}
	case reflect.Interface:
		return f.value(v.Elem())
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Array, reflect.Struct:
		return f.inside(v)
	default: // the other kinds always fit
	}
	return nil
}

// inside looks at what a value is made of, unless it contains itself.
func (f *faultFinder) inside(v reflect.Value) *fault {
	if p := containerOf(v); p != nil {
		if f.in[p] {
			return f.fault(v, "a cycle")
		}
		f.in[p] = true
		defer delete(f.in, p)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return f.value(v.Elem())
	case reflect.Map:
		return f.mapping(v)
	case reflect.Struct:
		return f.structure(v)
	default:
		return f.list(v)
	}
}

func (f *faultFinder) list(v reflect.Value) *fault {
	if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
		return nil
	}
	for i := range v.Len() {
		if found := f.at("["+strconv.Itoa(i)+"]", v.Index(i)); found != nil {
			return found
		}
	}
	return nil
}

// mapping looks at the entries in the order of their keys, so that the same fault is told each time.
func (f *faultFinder) mapping(v reflect.Value) *fault {
	if !isTextKey(v.Type().Key()) {
		return f.fault(v, "a map whose keys are of type "+v.Type().Key().String())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(keyName(a), keyName(b)) })
	for _, k := range keys {
		f.path = append(f.path, "["+keyName(k)+"]")
		found := f.key(k)
		if found == nil {
			found = f.value(v.MapIndex(k))
		}
		f.path = f.path[:len(f.path)-1]
		if found != nil {
			return found
		}
	}
	return nil
}

// key looks at a key that writes itself.
func (f *faultFinder) key(k reflect.Value) *fault {
	m, is := reflect.TypeAssert[encoding.TextMarshaler](k)
	if !is || k.Kind() == reflect.String || (k.Kind() == reflect.Pointer && k.IsNil()) {
		return nil
	}
	return f.call(k, "MarshalText", func() error {
		_, err := m.MarshalText()
		return err
	})
}

func isTextKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return true
	default:
		return t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
	}
}

func keyName(k reflect.Value) string {
	if text, ok := keyText(k); ok {
		if k.Kind() == reflect.String {
			return strconv.Quote(text)
		}
		return text
	}
	return ask(func() string { return fmt.Sprint(k) })
}

func (f *faultFinder) structure(v reflect.Value) *fault {
	t := v.Type()
	for i := range t.NumField() {
		field := t.Field(i)
		if (!field.IsExported() && !field.Anonymous) || field.Tag.Get("json") == "-" || omitted(field, v.Field(i)) {
			continue
		}
		fv := v.Field(i)
		if !fv.CanInterface() {
			if fv = embedded(v, i); !fv.IsValid() {
				continue
			}
		}
		if found := f.at("."+field.Name, fv); found != nil {
			return found
		}
	}
	return nil
}

// embedded returns an embedded field of an unexported struct type; encoding/json writes no other unexported one.
func embedded(v reflect.Value, i int) reflect.Value {
	t := v.Type().Field(i).Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return open(addressable(v).Field(i))
}

// omitted reports whether a field's tag leaves its value out.
func omitted(field reflect.StructField, v reflect.Value) bool {
	options := strings.Split(field.Tag.Get("json"), ",")[1:]
	if slices.Contains(options, "omitzero") && v.IsZero() {
		return true
	}
	if !slices.Contains(options, "omitempty") {
		return false
	}
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Chan, reflect.Func, reflect.Struct, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return false
	default:
		return v.IsZero()
	}
}

// marshaler looks at a value that writes itself.
func (f *faultFinder) marshaler(v reflect.Value) (found *fault, is bool) {
	if v.Kind() == reflect.Interface || (v.Kind() == reflect.Pointer && v.IsNil()) {
		return nil, false
	}
	self := v.Interface()
	if v.CanAddr() && v.Kind() != reflect.Pointer && !implementsAny(v.Type()) {
		self = v.Addr().Interface() // encoding/json takes the address too
	}
	switch m := self.(type) {
	case json.Marshaler:
		return f.call(v, "MarshalJSON", func() error {
			_, err := json.Marshal(m)
			return err
		}), true
	case encoding.TextMarshaler:
		return f.call(v, "MarshalText", func() error {
			_, err := m.MarshalText()
			return err
		}), true
	}
	return nil, false
}

func implementsAny(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// call runs a method that writes a value.
func (f *faultFinder) call(v reflect.Value, name string, method func() error) *fault {
	err := callGuarded(name+" of "+v.Type().String(), method)
	if err == nil {
		return nil
	}
	found := f.fault(v, "its "+name+" failed: "+err.Error())
	found.err = err
	if p, is := err.(*PanicError); is { //nolint:errorlint // made by callGuarded
		found.reason = fmt.Sprintf("its %s panicked: %v", name, p.Value)
	}
	return found
}

func callGuarded(whose string, method func() error) (err error) {
	defer recovered(whose, &err)
	return method()
}

// containerOf returns what stands for a pointer, map or slice in a map, nil for anything that cannot contain itself.
func containerOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map:
		if !v.IsNil() {
			return address{v.Type(), v.Pointer()}
		}
	case reflect.Slice:
		if v.Len() > 0 {
			return struct {
				address
				int
			}{address{v.Type(), v.Pointer()}, v.Len()}
		}
	default:
	}
	return nil
}
