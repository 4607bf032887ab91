package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sample is a process at one moment; see proc(5).
type sample struct {
	at       time.Time
	cpu      time.Duration // of all its threads, exact to 1 ns where the kernel has schedstat, else to 10 ms
	written  int64         // bytes sent to the disk
	resident int64         // bytes
	wakes    int64         // times a thread slept and was woken
}

func look(pid int) (s sample, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	s.at = time.Now()
	if s.written, err = field(filepath.Join(dir, "io"), "write_bytes:"); err != nil {
		return s, err
	}
	if s.resident, err = field(filepath.Join(dir, "status"), "VmRSS:"); err != nil {
		return s, err
	}
	s.resident <<= 10
	if s.cpu, err = worked(dir); err != nil {
		return s, err
	}
	threads, err := filepath.Glob(filepath.Join(dir, "task", "*", "status"))
	if err != nil {
		return s, err
	}
	for _, thread := range threads {
		n, err := field(thread, "voluntary_ctxt_switches:")
		if err != nil {
			continue // it has just ended
		}
		s.wakes += n
	}
	return s, nil
}

// field is the number behind a name in a file of lines.
func field(file, name string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("look at the app: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("look at the app: no %s in %s", name, file)
}

// worked is the processor time of all threads of a process.
func worked(dir string) (time.Duration, error) {
	var sum time.Duration
	files, err := filepath.Glob(filepath.Join(dir, "task", "*", "schedstat"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has just ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		sum += time.Duration(n)
	}
	if sum > 0 {
		return sum, nil
	}
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, fmt.Errorf("look at the app: %w", err)
	}
	// The name, in parentheses, may hold anything; user and system time are
	// the 12th and 13th field after it, in hundredths of a second.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("look at the app: %s/stat is cut off", dir)
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum, nil
}
