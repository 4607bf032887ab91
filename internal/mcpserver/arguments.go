package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// arguments reads the arguments of a call as its schema has them. A null is as
// good as nothing: some models write one for what they leave out.
func arguments[In any](raw json.RawMessage, schema *jsonschema.Schema) (In, error) {
	var in In
	given := map[string]any{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return in, errors.New("the arguments are no JSON object; send one")
		}
	}
	maps.DeleteFunc(given, func(_ string, value any) bool { return value == nil })
	for _, name := range slices.Sorted(maps.Keys(given)) {
		s, known := schema.Properties[name]
		if !known {
			takes := "no arguments"
			if len(schema.Properties) > 0 {
				takes = strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", ")
			}
			return in, fmt.Errorf("unknown argument %s; this tool takes %s", short(name), takes)
		}
		if err := check(name, given[name], s); err != nil {
			return in, err
		}
	}
	for _, name := range schema.Required {
		if _, ok := given[name]; !ok {
			return in, fmt.Errorf("%s is missing; it is %s", name, schema.Properties[name].Description)
		}
	}
	checked, err := json.Marshal(given)
	if err == nil {
		err = json.Unmarshal(checked, &in)
	}
	return in, err
}

// check compares a value with a schema of the kinds that the tools use.
func check(name string, value any, s *jsonschema.Schema) error {
	switch s.Type {
	case "string":
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s must be a text", name)
		}
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, any(text)) {
			return fmt.Errorf("%s: %s is unknown; use %s", name, short(text), strings.Trim(fmt.Sprint(s.Enum), "[]"))
		}
	case "integer":
		n, ok := value.(float64)
		if !ok || n != math.Trunc(n) || n < *s.Minimum || n > *s.Maximum {
			return fmt.Errorf("%s must be a whole number from %.0f to %.0f", name, *s.Minimum, *s.Maximum)
		}
	case "array":
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s must be a list", name)
		}
		for _, item := range list {
			if err := check(name, item, s.Items); err != nil {
				return err
			}
		}
	}
	return nil
}

// day reads a date, on the calendar of this machine, or a moment; empty is none.
func day(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%s: %s is no date; write 2026-01-31 or 2026-01-31T08:00:00Z", name, short(text))
	}
	return t, nil
}

// short quotes what a client sent, cut so that an answer stays short.
func short(text string) string { return fmt.Sprintf("%q", cut(text, 80)) }

// cut shortens a text to about n bytes, between two characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
