// Package logs sets up the one logger of the app: text lines to a rotating
// file and, when asked, to a terminal.
//
// Only app opens it; every other package is handed a *slog.Logger. Messages
// are static, facts are attributes, and what people wrote never reaches a log:
// attributes whose key names a text (text, body, input, query, prompt) keep
// only its length, and no value is longer than 2 KiB.
package logs

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"

	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	fileSize   = 10 // MB before the file is rotated
	filesKept  = 4  // rotated files beside the current one: at most 50 MB in all
	valueBytes = 2048
)

// Config says where lines go.
type Config struct {
	File   string       // absolute path; its folder must exist; empty = no file
	Mirror io.Writer    // second destination (stderr in the foreground); nil = none
	Level  slog.Leveler // lines below it are dropped; a *slog.LevelVar may be changed meanwhile; nil = info
}

// Open returns the logger and what closes its file. The file itself is opened
// at the first line, with mode 0600.
func Open(cfg Config) (*slog.Logger, io.Closer) {
	options := &slog.HandlerOptions{Level: cfg.Level, ReplaceAttr: guard}
	var handlers []slog.Handler
	var closer io.Closer = io.NopCloser(nil)
	if cfg.File != "" {
		file := &lumberjack.Logger{Filename: cfg.File, MaxSize: fileSize, MaxBackups: filesKept}
		closer = file
		handlers = append(handlers, slog.NewTextHandler(file, options))
	}
	if cfg.Mirror != nil {
		handlers = append(handlers, slog.NewTextHandler(cfg.Mirror, options))
	}
	return slog.New(slog.NewMultiHandler(handlers...)), closer
}

// Level reads the name of a level: debug, info, warn, error.
func Level(name string) (slog.Level, error) {
	switch strings.ToLower(name) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q is none of debug, info, warn, error", name)
}

// guard keeps what people wrote out of the log.
func guard(_ []string, a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	var s string
	switch value.Kind() {
	case slog.KindString:
		s = value.String()
	case slog.KindAny:
		switch v := value.Any().(type) {
		case error:
			s = v.Error()
		case []byte:
			s = string(v)
		case fmt.Stringer:
			s = v.String()
		default:
			if private(a.Key) {
				s = fmt.Sprint(v)
				break
			}
			return a
		}
	default:
		return a
	}
	if private(a.Key) {
		return slog.String(a.Key, fmt.Sprintf("(%d bytes)", len(s)))
	}
	if len(s) <= valueBytes {
		return a
	}
	cut := valueBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return slog.String(a.Key, s[:cut]+"…")
}

func private(key string) bool {
	switch key {
	case "text", "body", "input", "inputs", "query", "prompt":
		return true
	}
	return false
}
