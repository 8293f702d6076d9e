package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/sashabaranov/go-openai"
)

// Object is an error object as servers write it.
type Object struct{ api *openai.APIError }

// envelope has the members by which an error is told from an answer, whatever else stands in it.
type envelope struct {
	Error   json.RawMessage `json:"error"`
	Type    json.RawMessage `json:"type"`
	Choices json.RawMessage `json:"choices"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Code    json.RawMessage `json:"code"`
	Object  json.RawMessage `json:"object"`
}

// fields are the members of an error object, each of any kind.
type fields struct {
	Code    json.RawMessage `json:"code"`
	Type    json.RawMessage `json:"type"`
	Param   json.RawMessage `json:"param"`
	Message json.RawMessage `json:"message"`
	Status  json.RawMessage `json:"status"`
	Inner   json.RawMessage `json:"innererror"`
}

// errNoObject is below a RequestError whose body is JSON, but holds no error object.
var errNoObject = errors.New("the body has no error object")

// FindError returns the error object in a body or frame of status 200, or nil if it holds none. An error member that is
// null, false or empty is none where an answer stands beside it.
func FindError(body []byte) *Object {
	if !bytes.Contains(body, []byte(`"error"`)) {
		return nil
	}
	env, err := open(body)
	if err != nil {
		return nil
	}
	named, _ := text(env.Type)
	if hasError(env) || (named == "error" && jsonKind(env.Choices) == 0) {
		return env.object()
	}
	return nil
}

// ParseError reads the payload of an "event: error" frame, which need not have an error member.
func ParseError(body []byte) *Object {
	if obj, _ := parse(body); obj != nil {
		return obj
	}
	if env, err := open(body); err == nil {
		return env.object()
	}
	return &Object{api: &openai.APIError{Message: string(body)}}
}

// parse reads the body of a failed call. Without an error object it says why.
func parse(body []byte) (*Object, error) {
	env, err := open(body)
	if err != nil {
		return nil, err
	}
	if k := jsonKind(env.Error); k == 0 || k == 'n' {
		if jsonKind(env.Message) == 0 && jsonKind(env.Code) == 0 && jsonKind(env.Detail) == 0 {
			return nil, errNoObject
		}
	}
	return env.object(), nil
}

// open reads the first JSON value of a body; of an array (Gemini) its first element.
func open(body []byte) (*envelope, error) {
	var first json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&first); err != nil {
		return nil, err
	}
	if jsonKind(first) == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(first, &list); err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, errNoObject
		}
		first = list[0]
	}
	env := new(envelope)
	if err := json.Unmarshal(first, env); err != nil {
		return nil, err
	}
	return env, nil
}

func hasError(env *envelope) bool {
	empty := false
	switch jsonKind(env.Error) {
	case 0, 'n', 'f':
		return false
	case '"':
		s, _ := text(env.Error)
		empty = s == ""
	case '{':
		var m map[string]json.RawMessage
		empty = json.Unmarshal(env.Error, &m) == nil && len(m) == 0
	}
	return !empty || jsonKind(env.Choices) == 0
}

// object takes the error out of its envelope: an object, a text, or the envelope's own members.
func (env *envelope) object() *Object {
	f := fields{Code: env.Code, Type: env.Type, Message: env.Message}
	if jsonKind(f.Message) == 0 {
		f.Message = env.Detail
	}
	switch jsonKind(env.Error) {
	case '{':
		f = fields{}
		if json.Unmarshal(env.Error, &f) != nil {
			f = fields{}
		}
	case '"':
		if jsonKind(f.Message) == 0 {
			f.Message = env.Error
		}
	}
	return f.object()
}

func (f *fields) object() *Object {
	api := &openai.APIError{}
	api.Message, _ = text(f.Message)
	api.Type, _ = text(f.Type)
	if p, kind := text(f.Param); kind != "" {
		api.Param = &p
	}
	api.Code = code(f.Code)
	if status, _ := text(f.Status); status != "" && api.Type == "" {
		api.Type = status // Google's name of the code: RESOURCE_EXHAUSTED
	}
	var inner openai.InnerError
	if jsonKind(f.Inner) == '{' && json.Unmarshal(f.Inner, &inner) == nil {
		api.InnerError = &inner
	}
	return &Object{api: api}
}

func (o *Object) param() string {
	if o.api.Param == nil {
		return ""
	}
	return *o.api.Param
}

func (o *Object) code() string {
	switch c := o.api.Code.(type) {
	case string:
		return c
	case int:
		if c != 0 { // a null code
			return strconv.Itoa(c)
		}
	}
	return ""
}

// status is the HTTP status that the code names: gateways report failures inside a stream so.
func (o *Object) status() int {
	n, err := strconv.Atoi(o.code())
	if err != nil || n < 400 || n > 599 {
		return 0
	}
	return n
}

// code keeps a code as go-openai does: a text, a whole number as int, nothing else.
func code(raw json.RawMessage) any {
	s, kind := text(raw)
	if kind == "number" {
		if n, err := strconv.ParseFloat(s, 64); err == nil && n == float64(int(n)) {
			return int(n)
		}
	}
	if s == "" {
		return nil
	}
	return s
}

// text reads a JSON text or number, or the texts of a list; kind is empty for anything else.
func text(raw json.RawMessage) (s, kind string) {
	switch k := jsonKind(raw); {
	case k == '"':
		if json.Unmarshal(raw, &s) == nil {
			return s, "string"
		}
	case k == '-' || k >= '0' && k <= '9':
		return string(bytes.TrimSpace(raw)), "number"
	case k == '[':
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			return strings.Join(list, ", "), "string"
		}
	}
	return "", ""
}
