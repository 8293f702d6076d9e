package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
)

// maxShapeDepth is how deep a shape goes.
const maxShapeDepth = 16

// goValue describes a Go value.
func (w *shapeWriter) goValue(v any) { w.value(reflect.ValueOf(v), 0) }

func (w *shapeWriter) value(v reflect.Value, depth int) {
	if w.left--; w.left < 0 || depth > maxShapeDepth {
		w.out.WriteString("...")
		return
	}
	switch v.Kind() {
	case reflect.Invalid:
		w.out.WriteString("null")
	case reflect.Pointer, reflect.Interface:
		w.value(v.Elem(), depth+1)
	case reflect.String:
		fmt.Fprintf(&w.out, "%s(%d)", v.Type(), v.Len())
	case reflect.Slice, reflect.Array:
		w.list(v, depth)
	case reflect.Map:
		fmt.Fprintf(&w.out, "%s(%d)", v.Type(), v.Len())
	case reflect.Struct:
		w.structure(v, depth)
	default:
		w.out.WriteString(v.Type().String())
	}
}

// list describes the elements by their type, or the first one if that says more.
func (w *shapeWriter) list(v reflect.Value, depth int) {
	elem := v.Type().Elem()
	fmt.Fprintf(&w.out, "[%d]", v.Len())
	if v.Len() == 0 || elem.Kind() != reflect.Struct {
		w.out.WriteString(elem.String())
		return
	}
	w.value(v.Index(0), depth+1)
}

func (w *shapeWriter) structure(v reflect.Value, depth int) {
	shown := 0
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		if shown++; shown == 1 {
			w.out.WriteString("{")
		} else {
			w.out.WriteString(", ")
		}
		w.out.WriteString(f.Name + ": ")
		w.value(v.Field(i), depth+1)
	}
	if shown == 0 {
		w.out.WriteString(v.Type().String())
		return
	}
	w.out.WriteString("}")
}

// jsonValue describes the next value of dec.
func (w *shapeWriter) jsonValue(dec *json.Decoder) error {
	if err := w.jsonNext(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("more than one value: %w", err)
	}
	return nil
}

func (w *shapeWriter) jsonNext(dec *json.Decoder, depth int) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return w.jsonObject(dec, depth)
		}
		return w.jsonArray(dec, depth)
	case string:
		w.write(depth, textShape(t))
	case json.Number:
		w.write(depth, "number")
	case bool:
		w.write(depth, "bool")
	case nil:
		w.write(depth, "null")
	}
	return nil
}

// write writes a part, unless there is no room.
func (w *shapeWriter) write(depth int, part string) {
	if w.left > 0 && depth <= maxShapeDepth {
		w.left--
		w.out.WriteString(part)
	}
}

func (w *shapeWriter) jsonArray(dec *json.Decoder, depth int) error {
	n, first := 0, shapeWriter{left: w.left}
	for ; dec.More(); n++ {
		into := &first
		if n > 0 {
			into = &shapeWriter{}
		}
		if err := into.jsonNext(dec, depth+1); err != nil {
			return err
		}
	}
	w.write(depth, "["+strconv.Itoa(n)+"]"+first.out.String())
	w.left = min(w.left, first.left)
	_, err := dec.Token()
	return err
}

func (w *shapeWriter) jsonObject(dec *json.Decoder, depth int) error {
	inside, unnamed := shapeWriter{left: w.left}, 0
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		into := &inside
		name, _ := key.(string)
		if !isFieldName(name) {
			unnamed++
			into = &shapeWriter{}
		} else if inside.left > 0 && depth <= maxShapeDepth {
			if inside.out.Len() > 0 {
				inside.out.WriteString(", ")
			}
			inside.out.WriteString(name + ": ")
		}
		if err := into.jsonNext(dec, depth+1); err != nil {
			return err
		}
	}
	if unnamed > 0 {
		if inside.out.Len() > 0 {
			inside.out.WriteString(", ")
		}
		fmt.Fprintf(&inside.out, "%d more", unnamed)
	}
	w.write(depth, "{"+inside.out.String()+"}")
	w.left = min(w.left, inside.left)
	_, err := dec.Token()
	return err
}

// isFieldName reports whether a member's name looks like a field's.
func isFieldName(name string) bool {
	if len(name) == 0 || len(name) > 40 {
		return false
	}
	for i, c := range []byte(name) {
		letter := ('a' <= c|0x20 && c|0x20 <= 'z') || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}
