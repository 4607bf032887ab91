package openai

import "encoding/json"

// Type is the coarse class in an error envelope; SDKs choose their exception
// by the HTTP status and print the type.
type Type string

const (
	TypeInvalidRequest Type = "invalid_request_error" // 4xx: the request has to change
	TypeNotFound       Type = "not_found_error"       // 404 on a path
	TypePermission     Type = "permission_error"      // 403, 421
	TypeAuthentication Type = "authentication_error"  // 401
	TypeRateLimit      Type = "rate_limit_error"      // 429
	TypeServer         Type = "server_error"          // 5xx
)

// String returns the type as it stands in JSON.
func (t Type) String() string { return string(t) }

// Codes of the envelope. Programs branch on them, so they never change.
const (
	CodeQueueFull         = "queue_full"
	CodeQueueTimeout      = "queue_timeout"
	CodeUpstreamTimeout   = "upstream_timeout"
	CodeUpstreamError     = "upstream_error"
	CodeEngineUnavailable = "engine_unavailable"
	CodeInvalidVector     = "invalid_vector"
	CodeInvalidScore      = "invalid_score"
	CodeContextLength     = "context_length_exceeded"
	CodeModelNotFound     = "model_not_found"
	CodeInvalidJSON       = "invalid_json"
	CodeInvalidValue      = "invalid_value"
	CodeDuplicateField    = "duplicate_field"
	CodeMissingField      = "missing_required_parameter"
	CodeTokenIDs          = "token_ids_unsupported"
	CodeUnknownURL        = "unknown_url"
	CodeMethodNotAllowed  = "method_not_allowed"
	CodeNotImplemented    = "not_implemented"
	CodeMisdirected       = "misdirected_request"
	CodeForeignOrigin     = "origin_not_allowed"
	CodeUnsupportedMedia  = "unsupported_media_type"
	CodeTooLarge          = "request_too_large"
	CodeRequestTimeout    = "request_timeout"
	CodeInternal          = "internal_error"
	CodeInvalidKey        = "invalid_api_key"
	CodeTooManyBytes      = "too_many_bytes"
)

// Error is what stands inside {"error":…}. Param and Code are null in JSON
// when empty, as the API's own errors have them.
type Error struct {
	Message string // names the field and the remedy
	Type    Type
	Param   string // the field at fault; may be empty
	Code    string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Envelope returns the whole body, {"error":{…}}.
func (e *Error) Envelope() []byte {
	type inner struct {
		Message string  `json:"message"`
		Type    Type    `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	body := struct {
		Error inner `json:"error"`
	}{inner{Message: e.Message, Type: e.Type, Param: nullable(e.Param), Code: nullable(e.Code)}}
	// A struct of strings always marshals: the error is impossible.
	out, _ := json.Marshal(body)
	return out
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// invalid is a 400 about one field.
func invalid(param, code, message string) *Error {
	return &Error{Message: message, Type: TypeInvalidRequest, Param: param, Code: code}
}
