package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Set writes one value, given as on the command line, into the settings file.
// Everything else in the file, comments included, stays as it is. The new
// file is checked as a whole before it replaces the old one; accept may refuse
// it further (the capacity chain needs the engine's flags) and may be nil.
func Set(path, key, text string, accept func(*Loaded) error) error {
	k, ok := Find(key)
	if !ok {
		return Unknown(key)
	}
	value, err := k.parse(text)
	if err != nil {
		return err
	}
	var scratch Settings
	if err := k.set(&scratch, value); err != nil {
		return &ProblemsError{Problems: []Problem{bad(key, text, err)}}
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read settings: %w", err)
	}
	changed, err := edit(old, key, k.toml(&scratch))
	if err != nil {
		return fmt.Errorf("edit settings %s: %w", path, err)
	}
	// The environment is left out: the file must hold on its own.
	loaded, err := read(changed, Config{File: path, Getenv: func(string) string { return "" }})
	if err != nil {
		return err
	}
	if accept != nil {
		if err := accept(loaded); err != nil {
			return err
		}
	}
	return replace(path, changed)
}

// replace puts data at path in one step: a reader sees the old file or the
// new one, also after a power cut.
func replace(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make settings folder: %w", err)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a linked file stays a link
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".settings-*.toml") // mode 0600
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// edit returns the file with key = value in it: in the place of the old value,
// else at the end of its table, else in a new table at the end.
func edit(data []byte, key, value string) ([]byte, error) {
	section, name := "", key
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		section, name = key[:i], key[i+1:]
	}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	insert := -1 // byte offset after which the table's next line goes
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = dotted(e.Key())
			if table == section && e.Kind == unstable.Table {
				insert = lineEnd(data, keyEnd(e.Key()))
			}
		case unstable.KeyValue:
			full := dotted(e.Key())
			if table != "" {
				full = table + "." + full
			}
			start, end := int(e.Raw.Offset), int(e.Raw.Offset+e.Raw.Length)
			if full == key {
				at := keyEnd(e.Key())
				line := append(bytes.Clone(data[:at]), " = "+value...)
				return append(line, data[len(bytes.TrimRight(data[:end], " \t\r\n")):]...), nil
			}
			if table == section && start < end {
				insert = lineEnd(data, end-1)
			}
		}
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	line := name + " = " + value + "\n"
	switch {
	case insert >= 0:
		return splice(data, insert, line), nil
	case section == "":
		return splice(data, 0, line), nil // before any table, or it would belong to one
	}
	out := bytes.Clone(data)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return append(out, "["+section+"]\n"+line...), nil
}

// splice inserts line at offset, which is the start of a line or the end of
// a last line without a line break.
func splice(data []byte, offset int, line string) []byte {
	out := bytes.Clone(data[:offset])
	if offset > 0 && out[offset-1] != '\n' {
		out = append(out, '\n')
	}
	out = append(out, line...)
	return append(out, data[offset:]...)
}

func dotted(it unstable.Iterator) string {
	var parts []string
	for it.Next() {
		parts = append(parts, string(it.Node().Data))
	}
	return strings.Join(parts, ".")
}

// keyEnd is the offset after the last part of a key.
func keyEnd(it unstable.Iterator) int {
	end := 0
	for it.Next() {
		raw := it.Node().Raw
		end = int(raw.Offset + raw.Length)
	}
	return end
}

// lineEnd is the offset of the line after the one that holds offset.
func lineEnd(data []byte, offset int) int {
	if i := bytes.IndexByte(data[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(data)
}

// toml is the value in TOML.
func (k Knob) toml(s *Settings) string {
	switch field := k.field(s).(type) {
	case *string:
		return quote(*field)
	case *time.Duration:
		return quote(short(*field))
	case *int:
		return strconv.Itoa(*field)
	case *bool:
		return strconv.FormatBool(*field)
	case *[]string:
		items := make([]string, len(*field))
		for i, item := range *field {
			items[i] = quote(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return ""
}

// quote is a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
