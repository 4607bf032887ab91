package settings

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// edit returns the file with key = value in it: in the place of the old value,
// else at the end of its table, else in a new table at the end. An empty value
// takes the key out; a comment behind it stays.
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
			if full == key && value == "" {
				return cut(data, start, end), nil
			}
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
	if value == "" {
		return data, nil // says nothing already
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

// cut takes data[start:end], a key and its value, out; its line goes with it
// when nothing else stands there.
func cut(data []byte, start, end int) []byte {
	end = len(bytes.TrimRight(data[:end], " \t\r\n"))
	rest := data[end:lineEnd(data, end)]
	if begin := bytes.LastIndexByte(data[:start], '\n') + 1; len(bytes.TrimSpace(data[begin:start])) == 0 {
		start = begin
	}
	if len(bytes.TrimSpace(rest)) == 0 {
		end += len(rest)
	} else {
		end += len(rest) - len(bytes.TrimLeft(rest, " \t"))
	}
	return append(bytes.Clone(data[:start]), data[end:]...)
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
