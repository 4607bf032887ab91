package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ondol-app/ondol/internal/process"
)

const program = "llama-server"

// Locate finds llama-server: the setting when there is one, else the copy in
// the app's bundle, Homebrew's, the one on PATH, and the private copy that a
// development checkout keeps. The error names the remedy.
func Locate(setting string) (string, error) {
	if setting != "" {
		path, err := filepath.Abs(setting)
		if err != nil {
			return "", err
		}
		if err := runnable(path); err != nil {
			return "", fmt.Errorf("the llama-server that is set cannot be used: %w; correct engine.server (ONDOL_LLAMA_SERVER), or leave it empty to have it looked for", err)
		}
		return path, nil
	}
	own, err := os.Executable()
	if err == nil {
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
	}
	before, after := places(own, runtime.GOOS, os.Getenv("HOMEBREW_PREFIX"))
	for _, path := range before {
		if runnable(path) == nil {
			return path, nil
		}
	}
	if path, err := process.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, path := range after {
		if runnable(path) == nil {
			return path, nil
		}
	}
	remedy := "run make setup in the checkout, or set engine.server to its path"
	if runtime.GOOS == "darwin" {
		remedy = "run brew install llama.cpp, or set engine.server to its path"
	}
	return "", errors.New("no llama-server found in the app, in Homebrew or on PATH: " + remedy)
}

// places lists where to look before and after PATH, for an app whose binary is own.
func places(own, goos, brew string) (before, after []string) {
	if own != "" {
		folder := filepath.Dir(own)
		if goos == "darwin" && filepath.Base(folder) == "MacOS" { // Ondol.app/Contents/MacOS/ondol
			contents := filepath.Dir(folder)
			before = append(before,
				filepath.Join(contents, "Helpers", program),
				filepath.Join(contents, "Resources", "llama", program))
		}
		before = append(before, filepath.Join(folder, program))
		// build/bin/ondol → build/deps/llama/llama-server
		after = append(after, filepath.Join(filepath.Dir(folder), "deps", "llama", program))
	}
	prefixes := []string{"/opt/homebrew", "/usr/local"} // Apple Silicon, Intel
	if goos != "darwin" {
		prefixes = []string{"/home/linuxbrew/.linuxbrew"}
	}
	if brew != "" {
		prefixes = append([]string{brew}, prefixes...)
	}
	for _, prefix := range prefixes {
		before = append(before, filepath.Join(prefix, "bin", program))
	}
	return before, after
}

func runnable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}

// inspectTimeout bounds --version and --help. The first run of a new program
// on macOS waits for its signature check.
const inspectTimeout = 30 * time.Second

// executable is one llama-server program.
type executable struct {
	path    string
	version string          // "0.7.0 (build 11669, commit Debian)"
	knows   map[string]bool // the flags its help names
}

var (
	versionLine = regexp.MustCompile(`(?m)^version: *(\S.*?)\s*$`)
	flagName    = regexp.MustCompile(`(?m)(?:^|[\s,])(--?[a-zA-Z][a-zA-Z0-9-]*)`)
)

// inspector asks programs who they are, once for each version of the file, so
// that a restart after a crash costs nothing. One engine uses it at a time.
type inspector struct {
	known executable
	stamp fileStamp
}

// fileStamp tells one version of a file from another.
type fileStamp struct {
	path  string
	size  int64
	mtime time.Time
}

func (i *inspector) inspect(ctx context.Context, path string) (executable, error) {
	info, err := os.Stat(path) // follows links: an update usually turns one
	if err != nil {
		return executable{}, err
	}
	stamp := fileStamp{path: path, size: info.Size(), mtime: info.ModTime()}
	if i.stamp == stamp {
		return i.known, nil
	}
	known, err := inspect(ctx, path)
	if err != nil {
		return executable{}, err
	}
	i.known, i.stamp = known, stamp
	return known, nil
}

// inspect asks the program for its version and the flags it knows.
func inspect(ctx context.Context, path string) (executable, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	text, err := process.Output(ctx, path, "--version")
	if err != nil {
		return executable{}, err
	}
	version := versionLine.FindStringSubmatch(text)
	if version == nil {
		return executable{}, fmt.Errorf("%s --version tells no version: is it a llama-server?", path)
	}
	help, err := process.Output(ctx, path, "--help")
	if err != nil {
		return executable{}, err
	}
	program := executable{path: path, version: version[1], knows: map[string]bool{}}
	for _, match := range flagName.FindAllStringSubmatch(help, -1) {
		program.knows[match[1]] = true
	}
	if !program.knows["--embeddings"] && !program.knows["--embedding"] {
		return executable{}, fmt.Errorf("%s --help names no --embeddings: is it a llama-server?", path)
	}
	return program, nil
}

// arguments is the whole command line: the profile's flags exactly as they
// are, then ours.
func (b executable) arguments(flags []string, model, name, socket, keyFile string) []string {
	args := append([]string{}, flags...)
	args = append(args, "-m", model, "--host", socket, "--api-key-file", keyFile)
	if b.knows["--alias"] && !strings.Contains(name, ",") { // a comma would make two of it
		args = append(args, "--alias", name)
	}
	if b.knows["--poll"] && !slices.Contains(flags, "--poll") {
		// By itself its threads turn on their cores between two requests: heat,
		// and in everybody's way. On two cores a short input takes a third less
		// time without that, a long one no more.
		args = append(args, "--poll", "0")
	}
	for _, candidates := range [][]string{
		{"--no-ui", "--no-webui"}, // nobody but us can reach it
		{"--offline"},             // it has nothing to fetch
	} {
		for _, flag := range candidates {
			if b.knows[flag] {
				args = append(args, flag)
				break
			}
		}
	}
	return args
}
