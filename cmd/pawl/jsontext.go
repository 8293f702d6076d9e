package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oneLine is JSON on one line, all of it, without characters that a terminal would act on.
func oneLine(data []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return strconv.Quote(string(data))
	}
	text := strings.ToValidUTF8(b.String(), "\uFFFD")
	if isPrintable(text) {
		return text
	}
	// What cannot be printed stands inside of strings: elsewhere JSON has none of it.
	var out strings.Builder
	for _, r := range text {
		switch {
		case strconv.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			const surrogates, bits, low = 0x10000, 10, 0x3ff
			fmt.Fprintf(&out, `\u%04x\u%04x`, 0xd800+(r-surrogates)>>bits, 0xdc00+(r-surrogates)&low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// asText is a JSON value for people: a string as it is, all else as JSON.
func asText(data []byte) string {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return text
	}
	return oneLine(data)
}

// schema is what wants needs of a JSON schema.
type schema struct {
	Type       names              `json:"type"`
	Enum       []json.RawMessage  `json:"enum"`
	Items      *schema            `json:"items"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional json.RawMessage    `json:"additionalProperties"` //nolint:tagliatelle // JSON Schema's word
}

// names is one name or a list of them.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*n = names{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// wants says in words what a JSON schema asks for; "any JSON" if it asks for nothing, or for more than words can say.
func wants(data []byte) string {
	var s schema
	if len(data) == 0 || json.Unmarshal(data, &s) != nil {
		return anyJSON
	}
	const depth = 4
	return s.words(depth)
}

const anyJSON = "any JSON"

func (s *schema) words(depth int) string {
	if s == nil || depth == 0 {
		return anyJSON
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, oneLine(v))
		}
		return strings.Join(values, " or ")
	}
	const kinds = 6 // that JSON has
	if len(s.Type) == 0 || len(s.Type) >= kinds {
		return anyJSON
	}
	var parts []string
	for _, kind := range s.Type {
		if kind != "null" {
			parts = append(parts, s.kind(kind, depth))
		}
	}
	if slices.Contains(s.Type, "null") {
		parts = append(parts, "null")
	}
	return strings.Join(parts, " or ")
}

func (s *schema) kind(kind string, depth int) string {
	switch kind {
	case "boolean":
		return "true or false"
	case "string":
		return "a string"
	case "integer":
		return "a whole number"
	case "number":
		return "a number"
	case "array":
		if s.Items == nil {
			return "a list"
		}
		return "a list, each " + s.Items.words(depth-1)
	case "object":
		return s.object(depth)
	}
	return printable(kind)
}

func (s *schema) object(depth int) string {
	if len(s.Properties) == 0 {
		var of schema
		if json.Unmarshal(s.Additional, &of) == nil && len(of.Type) > 0 {
			return "an object, each value " + of.words(depth-1)
		}
		return "an object"
	}
	fields := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		fields = append(fields, name)
	}
	slices.Sort(fields)
	for i, name := range fields {
		optional := ""
		if !slices.Contains(s.Required, name) {
			optional = "?"
		}
		fields[i] = fmt.Sprintf("%s%s: %s", quoted(name), optional, s.Properties[name].words(depth-1))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
