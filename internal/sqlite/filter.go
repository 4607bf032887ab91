package sqlite

import (
	"strings"

	"github.com/ondol-app/ondol/internal/document"
)

// where turns a filter into a condition on documents d and folders f.
// It returns "" when everything passes.
func where(f document.Filter) (condition string, args []any) {
	var all []string
	if len(f.Folders) > 0 {
		all = append(all, "d.folder_id IN ("+marks(len(f.Folders))+")")
		for _, id := range f.Folders {
			args = append(args, id)
		}
	}
	if len(f.Kinds) > 0 {
		all = append(all, "d.kind IN ("+marks(len(f.Kinds))+")")
		for _, k := range f.Kinds {
			args = append(args, string(k))
		}
	}
	if !f.After.IsZero() {
		all = append(all, "d.mtime >= ?")
		args = append(args, stamp(f.After))
	}
	if !f.Before.IsZero() {
		all = append(all, "d.mtime < ?")
		args = append(args, stamp(f.Before))
	}
	if condition, more := wherePath(key(f.Path)); condition != "" {
		all = append(all, condition)
		args = append(args, more...)
	}
	return strings.Join(all, " AND "), args
}

func wherePath(path string) (condition string, args []any) {
	if path == "" || path == "." || path == "./" {
		return "", nil
	}
	column := pathColumn(path)
	if strings.ContainsAny(path, "*?[") {
		return column + " GLOB ?", []any{path}
	}
	path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	// "0" is the character after "/": everything that begins with path and a slash.
	return "(" + column + " = ? OR (" + column + " >= ? AND " + column + " < ?))", []any{path, path + "/", path + "0"}
}

// pathColumn is what a path, in NFC, is compared with.
func pathColumn(path string) string {
	if strings.HasPrefix(path, "/") {
		return "(rtrim(f.path_key, '/') || '/' || d.path_key)"
	}
	return "d.path_key"
}

// marks is n question marks with commas between.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }
