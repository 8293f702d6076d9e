package durable

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// schemaOf describes the JSON of a type; nil if it cannot be described, and then whatever decodes will do.
func schemaOf[T any]() json.RawMessage {
	t := reflect.TypeFor[T]()
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: exceptions(t)})
	if err != nil {
		return nil
	}
	allowNil(schema)
	data, err := json.Marshal(schema)
	if err != nil {
		return nil
	}
	// A type that writes what its schema does not allow would refuse the right answers.
	var zero T
	if v, err := json.Marshal(zero); err != nil || fits(data, v) != nil {
		return nil
	}
	return data
}

// exceptions are the types inside of t that do not write what their kind suggests.
func exceptions(t reflect.Type) map[reflect.Type]*jsonschema.Schema {
	writesText := []reflect.Type{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()}
	writesJSON := []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler]()}
	found := map[reflect.Type]*jsonschema.Schema{}
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch {
		case t.Kind() == reflect.Interface:
			return
		case implements(t, writesJSON):
			found[t] = &jsonschema.Schema{Types: []string{"null", "boolean", "object", "array", "number", "string"}}
			return
		case implements(t, writesText):
			found[t] = &jsonschema.Schema{Types: []string{"null", "string"}}
			return
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && t.ConvertibleTo(reflect.TypeFor[[]byte]()):
			found[t] = &jsonschema.Schema{Types: []string{"null", "string"}}
			return
		}
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				walk(f.Type)
			}
		}
	}
	walk(t)
	return found
}

// implements reports whether t or a pointer to it implements one of the interfaces.
func implements(t reflect.Type, interfaces []reflect.Type) bool {
	for _, i := range interfaces {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// allowNil lets a map be nil: that is how it is written then.
func allowNil(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Type == "object" && len(s.Properties) == 0 && s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		s.Type, s.Types = "", []string{"null", "object"}
	}
	for _, p := range s.Properties {
		allowNil(p)
	}
	allowNil(s.Items)
	allowNil(s.AdditionalProperties)
}

// fits reports what does not fit a schema; nothing does not fit the empty one.
func fits(schema json.RawMessage, v []byte) error {
	if len(schema) == 0 {
		return nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the schema cannot be read: %w", err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("the schema cannot be used: %w", err)
	}
	var instance any
	if err := json.Unmarshal(v, &instance); err != nil {
		return fmt.Errorf("the value is no JSON: %w", err)
	}
	return resolved.Validate(instance)
}
