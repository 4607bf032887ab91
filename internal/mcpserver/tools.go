package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/search"
)

// addTools registers the four tools.
func (s *Server) addTools() error {
	for _, add := range []func() error{
		func() error {
			return add[Found](s, &mcp.Tool{Name: "search", Title: "Search the folders", InputSchema: searchSchema(),
				Description: "Finds the passages of the watched folders that answer a question, best first, one for each document. " +
					"Words and meaning both count; the query may hold \"quoted phrases\" and -exclusions. " +
					"evidence.found says whether anything answers it; when not, near_misses has the closest, which are no answer. Read more with the tool read."}, s.search)
		},
		func() error {
			return add[Reading](s, &mcp.Tool{Name: "read", Title: "Read a document", InputSchema: readSchema(),
				Description: "Reads the text of a document by lines. An answer holds a few pages; next is the number to give as from to go on."}, s.read)
		},
		func() error {
			return add[Listing](s, &mcp.Tool{Name: "list", Title: "List documents", InputSchema: listSchema(),
				Description: "Lists documents of the watched folders with their ids and states. next is the cursor of the following page; empty on the last one."}, s.list)
		},
		func() error {
			return add[Standing](s, &mcp.Tool{Name: "status", Title: "State of the index", InputSchema: object(nil),
				Description: "Tells which folders are watched (with the ids that search and list take), how far the index is, and what is wrong."}, s.status)
		},
	} {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// add registers a tool that is given In and answers with what Out describes.
func add[Out, In any](s *Server, t *mcp.Tool, run func(context.Context, In) (*mcp.CallToolResult, error)) error {
	out, err := jsonschema.For[Out](nil)
	if err != nil {
		return fmt.Errorf("describe the answers of %s: %w", t.Name, err)
	}
	input := t.InputSchema.(*jsonschema.Schema)
	if len(input.Properties) == 0 {
		// Written out, since some clients refuse a schema without any.
		t.InputSchema = json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	no := false
	t.OutputSchema = out
	t.Annotations = &mcp.ToolAnnotations{Title: t.Title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no}
	s.mcp.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in, err := arguments[In](req.Params.Arguments, input)
		if err != nil {
			return refusal(err), nil
		}
		ctx, done := s.begin(ctx, req)
		defer done()
		result, err := run(ctx, in)
		if err != nil {
			return refusal(err), nil
		}
		return result, nil
	})
	return nil
}

// object is the schema of the arguments of a tool; strict.
func object(properties map[string]*jsonschema.Schema, required ...string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: properties, Required: required, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
}

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

func number(low, high float64, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: &low, Maximum: &high, Description: description}
}

// maxID bounds ids: the largest whole number that JSON readers agree on.
const maxID = 1<<53 - 1

func pathSchema() *jsonschema.Schema {
	return text("only below this folder, only this file, or only what matches this pattern (**/*.md); absolute, or relative to any watched folder")
}

func kindsSchema() *jsonschema.Schema {
	kind := &jsonschema.Schema{Type: "string"}
	for _, k := range document.Kinds() {
		kind.Enum = append(kind.Enum, string(k))
	}
	return &jsonschema.Schema{Type: "array", Items: kind, Description: "only these kinds of document"}
}

func searchSchema() *jsonschema.Schema {
	return object(map[string]*jsonschema.Schema{
		"query":   text("what is looked for: words or a question, in any language"),
		"limit":   number(1, search.MaxLimit, fmt.Sprintf("results at most; %d when left out", search.DefaultLimit)),
		"folders": {Type: "array", Items: number(1, maxID, ""), Description: "only in the watched folders with these ids, which status tells"},
		"path":    pathSchema(),
		"kinds":   kindsSchema(),
		"after":   text("only modified on or after this day: 2026-01-31, or a moment: 2026-01-31T08:00:00Z"),
		"before":  text("only modified before this day or moment"),
	}, "query")
}

func readSchema() *jsonschema.Schema {
	return object(map[string]*jsonschema.Schema{
		"document": number(1, maxID, "id of the document, as search and list tell it"),
		"path":     text("path of the document, absolute or relative to a watched folder; instead of document"),
		"from":     number(1, maxPosition, "first line wanted, or next of the answer before; 1 when left out"),
		"to":       number(1, farLine-1, "last line wanted; as many as fit when left out"),
	})
}

func listSchema() *jsonschema.Schema {
	return object(map[string]*jsonschema.Schema{
		"folder": number(1, maxID, "only of the watched folder with this id, which status tells"),
		"path":   pathSchema(),
		"kinds":  kindsSchema(),
		"cursor": text("next of the page before; the first page when left out"),
	})
}
