package extract

import (
	"path/filepath"
	"strings"

	"github.com/ondol-app/ondol/internal/document"
)

// format is what the name of a file, and then its first line, say about it.
type format struct {
	kind     document.Kind
	language string          // for code; for skipped formats, their name
	skip     document.Reason // not empty: do not even open it
	certain  bool            // the name alone decides
}

// languages by file extension, lower case, without the dot. Only what is
// plain text is here; the rest of the world is in unread.
var languages = map[string]string{
	"go": "go", "rs": "rust", "c": "c", "h": "c", "cc": "c++", "cpp": "c++", "cxx": "c++", "hh": "c++", "hpp": "c++",
	"m": "objective-c", "mm": "objective-c", "swift": "swift", "kt": "kotlin", "kts": "kotlin", "java": "java", "scala": "scala",
	"groovy": "groovy", "gradle": "groovy", "cs": "c#", "fs": "f#", "vb": "visual basic", "py": "python", "pyi": "python", "rb": "ruby",
	"php": "php", "pl": "perl", "pm": "perl", "lua": "lua", "r": "r", "jl": "julia", "ex": "elixir", "exs": "elixir", "erl": "erlang",
	"hs": "haskell", "ml": "ocaml", "mli": "ocaml", "clj": "clojure", "el": "emacs lisp", "lisp": "lisp", "scm": "scheme", "zig": "zig",
	"nim": "nim", "d": "d", "dart": "dart", "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "javascript",
	"ts": "typescript", "mts": "typescript", "cts": "typescript", "tsx": "typescript", "vue": "vue", "svelte": "svelte",
	"css": "css", "scss": "scss", "sass": "sass", "less": "less", "html": "html", "htm": "html", "xhtml": "html", "xml": "xml",
	"xsd": "xml", "xsl": "xml", "plist": "xml", "sql": "sql", "sh": "shell", "bash": "shell", "zsh": "shell", "fish": "shell",
	"ps1": "powershell", "bat": "batch", "cmd": "batch", "awk": "awk", "vim": "vim", "json": "json", "jsonc": "json", "json5": "json",
	"jsonl": "json", "ndjson": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml", "ini": "ini", "cfg": "ini", "conf": "ini",
	"properties": "ini", "proto": "protobuf", "graphql": "graphql", "tf": "hcl", "hcl": "hcl", "nix": "nix", "cmake": "cmake",
	"mk": "makefile", "tex": "tex", "bib": "bibtex", "cu": "cuda", "metal": "metal", "glsl": "glsl", "asm": "assembly", "s": "assembly",
	"diff": "diff", "patch": "diff",
}

// names of files that are code without an extension.
var names = map[string]string{
	"makefile": "makefile", "gnumakefile": "makefile", "dockerfile": "dockerfile", "containerfile": "dockerfile", "rakefile": "ruby",
	"gemfile": "ruby", "brewfile": "ruby", "vagrantfile": "ruby", "jenkinsfile": "groovy", "cmakelists.txt": "cmake", "justfile": "makefile",
	"build.bazel": "starlark", "go.mod": "go module", "go.work": "go module",
}

var markdown = words("md markdown mdown mkd mdx qmd rmd")
var plain = words("txt text log rst adoc asciidoc org csv tsv srt vtt nfo textile")

// unsupported are documents that hold text and are not read yet; binary are
// formats without text of their own. Naming them here saves the reading of a
// film to learn that it is a film.
var (
	unsupported = words("pdf doc docx docm dot dotx xls xlsx xlsm xlsb ppt pptx pptm odt ods odp rtf pages numbers key " +
		"hwp hwpx hwpml epub mobi azw3 djvu eml mbox msg ics vcf ipynb svg chm webarchive")
	noText = words("png jpg jpeg gif bmp tif tiff webp heic heif avif ico icns psd ai cr2 cr3 nef arw dng mp3 m4a aac flac wav " +
		"ogg opus aiff mp4 m4v mov avi mkv webm mpg mpeg wmv zip gz tgz bz2 xz zst 7z rar tar dmg iso pkg deb rpm jar war apk exe dll " +
		"so dylib a o class pyc wasm bin db sqlite sqlite3 woff woff2 ttf otf eot gguf safetensors onnx pt pth npy npz " +
		"parquet arrow sketch fig blend stl glb")
)

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// formatOf judges by name alone.
func formatOf(path string) format {
	base := strings.ToLower(filepath.Base(path))
	ext := strings.TrimPrefix(filepath.Ext(base), ".")
	if lang, ok := names[base]; ok {
		return format{kind: document.KindCode, language: lang, certain: true}
	}
	lang, isCode := languages[ext]
	switch {
	case isCode:
		return format{kind: document.KindCode, language: lang, certain: true}
	case markdown[ext]:
		return format{kind: document.KindMarkdown, certain: true}
	case plain[ext]:
		return format{kind: document.KindText, certain: true}
	case unsupported[ext]:
		return format{language: ext, skip: document.ReasonUnsupported}
	case noText[ext]:
		return format{language: ext, skip: document.ReasonBinary}
	}
	return format{kind: document.KindText}
}

// refine looks at the first line of a file whose name says nothing.
func (f format) refine(content string) format {
	if f.certain {
		return f
	}
	first, _, _ := strings.Cut(content, "\n")
	switch {
	case strings.HasPrefix(first, "#!"):
		return format{kind: document.KindCode, language: interpreter(first), certain: true}
	case strings.HasPrefix(first, "<?php"):
		return format{kind: document.KindCode, language: "php", certain: true}
	case strings.HasPrefix(first, "<?xml"):
		return format{kind: document.KindCode, language: "xml", certain: true}
	case strings.HasPrefix(strings.ToLower(first), "<!doctype html"):
		return format{kind: document.KindCode, language: "html", certain: true}
	case first == "---" && frontTitle.MatchString(content[:min(len(content), 4096)]):
		return format{kind: document.KindMarkdown, certain: true}
	}
	return f
}

// interpreter reads the language out of "#!/usr/bin/env python3 -u".
func interpreter(line string) string {
	fields := strings.Fields(strings.TrimPrefix(line, "#!"))
	for len(fields) > 0 {
		name := filepath.Base(fields[0])
		fields = fields[1:]
		if name == "env" || strings.HasPrefix(name, "-") {
			continue
		}
		switch name = strings.TrimRight(name, "0123456789."); name {
		case "sh", "bash", "zsh", "dash", "ksh", "fish":
			return "shell"
		case "node", "deno", "bun":
			return "javascript"
		}
		return name
	}
	return "shell"
}
