package llamaserver

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"

	news "github.com/ondol-app/ondol/internal/event"
)

const (
	logName    = "llama-server.log"
	logSizeMB  = 5 // of one file
	logFiles   = 3 // older ones that are kept
	tailLines  = 40
	tailLine   = 2000    // bytes kept of one line
	maxLogRead = 4 << 20 // bytes of the file that are looked at for its last lines
)

// engineLog keeps what the engine says: all of it in a rotated file, the last
// lines of the present start in memory. Lumberjack keeps one idle goroutine for
// as long as the program runs; it holds nothing.
type engineLog struct {
	logger *slog.Logger
	notify func(news.Event)

	mu     sync.Mutex // guards all below
	file   *lumberjack.Logger
	alarm  chan<- string // 1-buffered; gets the first line of the present start that is one of alarms
	noGPU  bool          // the present start said that it finds none
	broken bool          // the file cannot be written, and that was said
	lines  uint64        // so far
	tail   []string      // at most tailLines, oldest first
	line   []byte        // what came after the last line break
}

func newEngineLog(path string, logger *slog.Logger, notify func(news.Event)) *engineLog {
	return &engineLog{logger: logger, notify: notify, file: &lumberjack.Logger{Filename: path, MaxSize: logSizeMB, MaxBackups: logFiles}}
}

// begin marks a new start in the file and forgets the lines of the one before.
// What it returns gets the line by which the engine says that it fails.
func (l *engineLog) begin(generation uint64, path string, args []string) (alarm <-chan string) {
	c := make(chan string, 1)
	l.mu.Lock()
	l.tail, l.line, l.alarm, l.noGPU = nil, nil, c, false
	l.mu.Unlock()
	_, _ = fmt.Fprintf(fileOnly{l}, "--- ondol: start %d: %s %s\n", generation, path, strings.Join(args, " ")) // Write reports no error
	return c
}

// Write takes the engine's output. It never fails: a full disk must not cut
// the engine off from its log.
func (l *engineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line = append(l.line, p...)
	for {
		line, rest, found := bytes.Cut(l.line, []byte("\n"))
		if !found {
			break
		}
		l.keep(line)
		l.line = rest
	}
	if len(l.line) > tailLine { // a line without an end
		l.keep(l.line)
		l.line = nil
	}
	l.store(p)
	return len(p), nil
}

// unhurried lets the engine's output gather: it writes three lines for each
// request, and reading each of them at once would wake a thread beside the one
// that waits for the vector.
type unhurried struct{ l *engineLog }

const (
	logRest = 20 * time.Millisecond // a pipe takes 64 KB meanwhile, some 200 requests
	logRush = 16 << 10              // what has gathered in the pipe must be read at once
)

func (u unhurried) Write(p []byte) (int, error) {
	n, err := u.l.Write(p)
	if n < logRush {
		time.Sleep(logRest)
	}
	return n, err
}

func (l *engineLog) keep(line []byte) {
	if l.alarm != nil && alarms.Match(line) {
		l.alarm <- string(line[:min(len(line), tailLine)])
		l.alarm = nil
	}
	l.noGPU = l.noGPU || bytes.Contains(line, []byte("no usable GPU found")) // common/arg.cpp
	l.lines++
	if len(l.tail) == tailLines {
		l.tail = slices.Delete(l.tail, 0, 1)
	}
	l.tail = append(l.tail, strings.ToValidUTF8(string(line[:min(len(line), tailLine)]), "�"))
}

func (l *engineLog) store(p []byte) {
	_, err := l.file.Write(p)
	switch {
	case err != nil && !l.broken:
		l.logger.Warn("engine log cannot be written", "error", err)
		l.notify(news.New(KindLogLost, "error", err.Error()))
	case err == nil && l.broken:
		l.notify(news.New(KindLogBack))
	}
	if l.broken = err != nil; l.broken {
		_ = l.file.Close() // opened anew by the next line: the disk may be another one by then
	}
}

// sawNoGPU says that the engine computes on the processor alone.
func (l *engineLog) sawNoGPU() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.noGPU
}

// count is how many lines the engine has written.
func (l *engineLog) count() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// last is what the present start said last, oldest first.
func (l *engineLog) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.Clone(l.tail)
	if len(l.line) > 0 {
		lines = append(lines, string(l.line))
	}
	return lines
}

func (l *engineLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// fileOnly writes to the file and not to the tail.
type fileOnly struct{ l *engineLog }

func (f fileOnly) Write(p []byte) (int, error) {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	f.l.store(p)
	return len(p), nil
}

// readTail returns the last n lines of a file, oldest first; none when there
// is no file.
func readTail(path string, n int) ([]string, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	start := max(info.Size()-maxLogRead, 0)
	raw, err := io.ReadAll(io.NewSectionReader(file, start, info.Size()-start))
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(strings.ToValidUTF8(string(raw), "�"), "\n")
	if text == "" {
		return nil, nil
	}
	lines := strings.Split(text, "\n")
	if start > 0 && len(lines) > 1 {
		lines = lines[1:] // the first is cut
	}
	return lines[max(len(lines)-n, 0):], nil
}
