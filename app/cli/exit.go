package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/ondol-app/ondol/assets"
	"github.com/ondol-app/ondol/internal/control"
	"github.com/ondol-app/ondol/internal/engines"
	"github.com/ondol-app/ondol/internal/settings"
)

// Exit codes.
const (
	exitDone       = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNoEvidence = 3
	exitNotRunning = 4
)

// exitError ends a command with a code. Err is shown; nil means that all was said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// said ends a command with a code after it has shown everything itself.
func said(code int) error { return &exitError{code: code} }

// usageError is a mistake in the arguments: the sentence named key.
type usageError struct {
	key   string
	pairs []any
	near  string // command that was probably meant; may be empty
	try   string // command whose help says more; may be empty
}

func (e *usageError) Error() string { return e.key }

// complaint is a failure whose sentence is in the locales.
type complaint struct {
	code  string // machine's name
	key   string
	pairs []any
}

func (e *complaint) Error() string { return e.key }

// refusal is what a program reads when a command failed: the control API's shape.
type refusal struct {
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Remedy  string `json:"remedy,omitempty"`

		Findings []engines.Finding  `json:"findings,omitempty"` // of a candidate's checks, those against it
		Problems []settings.Problem `json:"problems,omitempty"` // of settings, one by one
	} `json:"error"`
}

// report shows err and says with which code to end.
func (c *commands) report(err error) int {
	if err == nil {
		return exitDone
	}
	code, refused := exitFailed, refusal{}
	if e, ok := errors.AsType[*exitError](err); ok {
		if e.err == nil {
			return e.code
		}
		code, err = e.code, e.err
	}
	var lines []string
	switch {
	case asUsage(err, c.term.words, &lines):
		code, refused.Error.Code = exitUsage, "usage"
	default:
		var more bool
		code, more = c.explain(err, code, &refused, &lines)
		if !more && len(lines) == 0 {
			lines = append(lines, c.term.words.Say("error.failed", "message", clean(err.Error())))
		}
	}
	if c.asJSON {
		if refused.Error.Code == "" {
			refused.Error.Code = "failed"
		}
		if refused.Error.Message == "" {
			refused.Error.Message = firstOf(lines, err.Error())
		}
		writeJSON(c.term.out, refused)
		return code
	}
	for _, l := range lines {
		io.WriteString(c.term.err, l+"\n")
	}
	return code
}

func asUsage(err error, words assets.Words, lines *[]string) bool {
	e, ok := errors.AsType[*usageError](err)
	if !ok {
		return false
	}
	*lines = append(*lines, words.Say(e.key, e.pairs...))
	if e.near != "" {
		*lines = append(*lines, words.Say("usage.did_you_mean", "name", e.near))
	}
	if e.try != "" {
		*lines = append(*lines, words.Say("usage.try", "command", e.try))
	}
	return true
}

func firstOf(lines []string, fallback string) string {
	if len(lines) > 0 {
		return lines[0]
	}
	return fallback
}

// writeJSON writes a value for a program: indented, one line break at the end,
// text as it is rather than escaped for HTML.
// ask has the running app answer, and writes the answer where JSON is wanted.
// done says that nothing is left to do: it was written, or err tells why not.
func ask[T any](ctx context.Context, c *commands, call func(*control.Client, context.Context) (T, error)) (answer T, done bool, err error) {
	client, err := c.client()
	if err != nil {
		return answer, true, err
	}
	if answer, err = call(client, ctx); err != nil {
		return answer, true, err
	}
	if c.asJSON {
		return answer, true, writeJSON(c.term.out, answer)
	}
	return answer, false, nil
}

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// watched remembers the first error of writing, so that an answer that was
// lost (a full disk) does not end as a success.
type watched struct {
	io.Writer
	err error
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}
