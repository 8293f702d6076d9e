package journal

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"syscall"
)

// rebuild returns a value of t, the recorded type, made of the record. It is made once, so that a pointer is the same one
// each time.
func (e *RecordedError) rebuild(t reflect.Type) reflect.Value {
	if v, ok := e.rebuilt.Load(t); ok {
		return v.(reflect.Value) //nolint:forcetypeassert // nothing else is stored
	}
	v := reflect.New(t).Elem()
	rec := e.Record()
	if !rec.Nil {
		held := v
		if t.Kind() == reflect.Pointer {
			v.Set(reflect.New(t.Elem()))
			held = v.Elem()
		}
		if value := parse(rec.Value); value != nil {
			ask(func() bool {
				if fields, is := value.(map[string]any); is && held.Kind() == reflect.Struct {
					e.setFields(fields, held)
					return true
				}
				e.set(value, held)
				return true
			})
		}
	}
	kept, _ := e.rebuilt.LoadOrStore(t, v)
	return kept.(reflect.Value) //nolint:forcetypeassert // nothing else is stored
}

// parse reads JSON with its numbers as they are written; nil if it is none.
func parse(raw []byte) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	return v
}

// setFields sets the fields of a struct that an object names. Fields that do not fit stay zero.
func (e *RecordedError) setFields(object map[string]any, dst reflect.Value) {
	t := dst.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		if held, has := object[f.Name]; has && (f.IsExported() || f.Anonymous) {
			e.set(held, open(dst.Field(i)))
		}
	}
}

// set sets dst to a recorded value. What does not fit leaves it zero.
func (e *RecordedError) set(held any, dst reflect.Value) {
	if held == nil || (dst.Kind() == reflect.Struct && rebuildSpecial(held, dst)) {
		return
	}
	switch dst.Kind() {
	case reflect.Bool:
		if b, is := held.(bool); is {
			dst.SetBool(b)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64:
		setNumber(held, dst)
	case reflect.String:
		if s, ok := stringOf(held); ok {
			dst.SetString(s)
		}
	case reflect.Pointer:
		e.setPointer(held, dst)
	case reflect.Interface:
		e.setDynamic(held, dst)
	case reflect.Slice, reflect.Array:
		e.setList(held, dst)
	case reflect.Map:
		e.setMap(held, dst)
	case reflect.Struct:
		e.setStruct(held, dst)
	default: // channels and the like are not recorded
	}
}

func setNumber(held any, dst reflect.Value) {
	var text string
	switch h := held.(type) {
	case json.Number:
		text = h.String()
	case string: // NaN and the infinities
		text = h
	}
	switch {
	case dst.CanInt():
		if n, err := strconv.ParseInt(text, 10, dst.Type().Bits()); err == nil {
			dst.SetInt(n)
		}
	case dst.CanUint():
		if n, err := strconv.ParseUint(text, 10, dst.Type().Bits()); err == nil {
			dst.SetUint(n)
		}
	case dst.CanFloat():
		if f, err := strconv.ParseFloat(text, dst.Type().Bits()); err == nil {
			dst.SetFloat(f)
		}
	}
}

func stringOf(held any) (string, bool) {
	if object, is := held.(map[string]any); is {
		b, ok := bytesOf(object[keyBytes])
		return string(b), ok
	}
	s, is := held.(string)
	return s, is
}

func bytesOf(held any) ([]byte, bool) {
	s, is := held.(string)
	if !is {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(s)
	return b, err == nil
}

// setPointer leaves a pointer nil if nothing could be made of what it points to.
func (e *RecordedError) setPointer(held any, dst reflect.Value) {
	if t := dst.Type().Elem(); t.Kind() != reflect.Struct || !never(t) {
		p := reflect.New(t)
		e.set(held, p.Elem())
		dst.Set(p)
	}
}

func (e *RecordedError) setList(held any, dst reflect.Value) {
	if dst.Kind() == reflect.Slice && dst.Type().Elem().Kind() == reflect.Uint8 {
		if b, ok := bytesOf(held); ok {
			dst.SetBytes(b)
		}
		return
	}
	list, is := held.([]any)
	if !is {
		return
	}
	if dst.Kind() == reflect.Slice {
		dst.Set(reflect.MakeSlice(dst.Type(), len(list), len(list)))
	}
	for i := range min(len(list), dst.Len()) {
		e.set(list[i], dst.Index(i))
	}
}

func (e *RecordedError) setMap(held any, dst reflect.Value) {
	object, is := held.(map[string]any)
	if !is {
		return
	}
	t := dst.Type()
	dst.Set(reflect.MakeMapWithSize(t, len(object)))
	for text, held := range object {
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if !setKey(text, key) {
			continue
		}
		e.set(held, value)
		dst.SetMapIndex(key, value)
	}
}

func setKey(text string, key reflect.Value) bool {
	switch {
	case key.Kind() == reflect.String:
		key.SetString(text)
	case key.Kind() == reflect.Bool:
		key.SetBool(text == "true")
	case key.CanInt() || key.CanUint():
		setNumber(text, key)
	default:
		return false
	}
	return true
}

func (e *RecordedError) setStruct(held any, dst reflect.Value) {
	object, is := held.(map[string]any)
	if is && object[keyBytes] == nil {
		e.setFields(object, dst)
		return
	}
	text, ok := stringOf(held)
	m, can := reflect.TypeAssert[encoding.TextUnmarshaler](dst.Addr())
	if !ok || !can {
		return
	}
	if !ask(func() bool { return m.UnmarshalText([]byte(text)) == nil }) {
		dst.SetZero()
	}
}

// setDynamic sets an interface.
func (e *RecordedError) setDynamic(held any, dst reflect.Value) {
	object, is := held.(map[string]any)
	if !is {
		return
	}
	if n, is := object[keyCause].(json.Number); is {
		if i, err := strconv.Atoi(n.String()); err == nil && i >= 0 && i < len(e.causes) {
			setError(e.causes[i], dst)
		}
		return
	}
	if inner := object[keyError]; inner != nil {
		setError(e.errorOf(inner), dst)
		return
	}
	path, _ := object[keyType].(string)
	if path == reflectTypeName {
		name, _ := object[keyString].(string)
		if t, known := knownTypes()[name]; known {
			setInterface(dst, t)
		}
		return
	}
	t, known := knownTypes()[path]
	if !known || !t.AssignableTo(dst.Type()) {
		return
	}
	v := reflect.New(t).Elem()
	e.set(object[keyValue], v)
	dst.Set(v)
}

// errorOf makes an error of a record inside a value.
func (e *RecordedError) errorOf(held any) error {
	var rec ErrorRecord
	if raw, err := json.Marshal(held); err == nil && json.Unmarshal(raw, &rec) == nil {
		return rec.asCause(e.asked)
	}
	return nil
}

// setError sets a field of an interface type to an error.
func setError(err error, dst reflect.Value) {
	if err == nil || setInterface(dst, err) {
		return
	}
	if e, is := err.(*RecordedError); is { //nolint:errorlint // the value itself is meant
		setInterface(dst, e.withFacets())
	}
}

// errno returns the system's error of a record, if this system has it with the same text.
func (r *ErrorRecord) errno() (no syscall.Errno, ok bool) {
	var n uint64
	if r.Type != "syscall.Errno" || json.Unmarshal(r.Value, &n) != nil || uint64(uintptr(n)) != n {
		return 0, false
	}
	no = syscall.Errno(n)
	return no, no.Error() == r.text()
}
