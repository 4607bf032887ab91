package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxBody is the largest request body, in bytes; the largest real one is a query.
const maxBody = 1 << 20

// decode reads a JSON object into T, strictly: an unknown field, a wrong type
// or anything after the object is an error that names it.
func decode[T any](r *http.Request) (T, error) {
	var v T
	if claimed := r.Header.Get("Content-Type"); claimed != "" {
		if kind, _, err := mime.ParseMediaType(claimed); err != nil || kind != "application/json" {
			return v, &Error{Status: http.StatusUnsupportedMediaType, Code: CodeUnsupportedMedia,
				Message: "the body is not JSON", Remedy: "send Content-Type: application/json"}
		}
	}
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return v, badBody(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return v, &Error{Status: http.StatusBadRequest, Code: CodeBadRequest,
			Message: "something follows the JSON object", Remedy: "send exactly one object"}
	}
	return v, nil
}

// noBody refuses a body where none is expected, so that a field meant for
// another route is not dropped in silence.
func noBody(r *http.Request) error {
	if _, err := io.ReadFull(r.Body, make([]byte, 1)); !errors.Is(err, io.EOF) {
		return &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: "this route takes no body", Remedy: "send none"}
	}
	return nil
}

func badBody(err error) *Error {
	e := &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: "the body is not valid JSON: " + strings.TrimPrefix(err.Error(), "json: "),
		Remedy: "send one JSON object in UTF-8"}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &Error{Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge,
			Message: fmt.Sprintf("the body is larger than %d bytes", large.Limit), Remedy: "send less"}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := wrong.Field
		if field == "" {
			field = "the body"
		}
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalidValue,
			Message: fmt.Sprintf("%s must not be a JSON %s", field, wrong.Value), Remedy: "send a value of its type (" + wrong.Type.String() + ")"}
	}
	if wrong, ok := errors.AsType[*time.ParseError](err); ok {
		return &Error{Status: http.StatusBadRequest, Code: CodeInvalidValue,
			Message: wrong.Value + " is no time", Remedy: "write it as 2026-04-10T00:00:00Z"}
	}
	// encoding/json has no type for this error.
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return &Error{Status: http.StatusBadRequest, Code: CodeUnknownField, Message: "unknown field " + name, Remedy: "leave it out or correct its name"}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		e.Message = "the JSON body is empty or ends too early"
	}
	return e
}

// params reads the query string; a name that is not known is an error.
func params(r *http.Request, known ...string) (map[string]string, error) {
	values := make(map[string]string)
	for name, list := range r.URL.Query() {
		if !slices.Contains(known, name) {
			return nil, &Error{Status: http.StatusBadRequest, Code: CodeUnknownParameter,
				Message: fmt.Sprintf("unknown parameter %q", name), Remedy: "known here: " + strings.Join(append([]string{"none"}, known...)[min(1, len(known)):], ", ")}
		}
		if len(list) > 1 {
			return nil, invalid(name, "stands twice", "send it once")
		}
		values[name] = list[0]
	}
	return values, nil
}

// number reads a whole number of at least low and at most high; absent is fallback.
func number(values map[string]string, name string, low, high, fallback int) (int, error) {
	text, ok := values[name]
	if !ok || text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return 0, invalid(name, "is out of range", fmt.Sprintf("send a whole number from %d to %d", low, high))
	}
	return n, nil
}

// pathID reads {id}.
func pathID(r *http.Request) (int64, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, invalid("id", "is no id", "take it from the list")
	}
	return id, nil
}

func invalid(name, what, remedy string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: CodeInvalidValue, Message: name + " " + what, Remedy: remedy}
}
