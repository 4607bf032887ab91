package chunk

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// goBlocks cuts Go at its top-level declarations, each with its comment. A
// file that does not parse is cut as far as the parser got.
func goBlocks(text string) []block {
	files := token.NewFileSet()
	parsed, _ := parser.ParseFile(files, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if parsed == nil || len(parsed.Decls) == 0 {
		return codeBlocks(text)
	}
	file := files.File(parsed.FileStart)
	blocks := []block{{code: true}}
	for _, decl := range parsed.Decls {
		pos := decl.Pos()
		if doc := docOf(decl); doc != nil {
			pos = doc.Pos()
		}
		start := strings.LastIndexByte(text[:file.Offset(pos)], '\n') + 1
		if start <= blocks[len(blocks)-1].start {
			continue
		}
		blocks = append(blocks, block{start: start, path: declPath(decl), fresh: true, code: true})
	}
	return contiguous(blocks, len(text))
}

func contiguous(blocks []block, end int) []block {
	for i := range blocks {
		blocks[i].end = end
		if i+1 < len(blocks) {
			blocks[i].end = blocks[i+1].start
		}
	}
	return blocks
}

func docOf(decl ast.Decl) *ast.CommentGroup {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// declPath names a declaration the way its source does: "func (*Server) Run".
func declPath(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := "func "
		if d.Recv != nil && len(d.Recv.List) > 0 {
			name += "(" + receiver(d.Recv.List[0].Type) + ") "
		}
		return []string{shorten(name + d.Name.Name)}
	case *ast.GenDecl:
		if spec, ok := d.Specs[0:min(1, len(d.Specs))], d.Tok == token.TYPE; ok && len(spec) == 1 {
			if t, ok := spec[0].(*ast.TypeSpec); ok {
				return []string{shorten("type " + t.Name.Name)}
			}
		}
	}
	return nil
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return "*" + receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// declaration finds the name in the first line of a definition, in any of the
// languages that announce one with a word.
var declaration = regexp.MustCompile(`^(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|sealed|open|override|` +
	`virtual|inline|unsafe|extern|pub(?:\([a-z]+\))?|data|partial|case)\s+)*` +
	`(class|interface|struct|enum|union|trait|impl|protocol|extension|object|module|namespace|record|def|defp|defmodule|fn|func|fun|function|sub|proc|type|macro_rules!)\s+` +
	`([\p{L}_$][\p{L}\p{N}_$.:!?]*)`)

// sectionLine is the head of an INI or TOML table.
var sectionLine = regexp.MustCompile(`^\[{1,2}([^\[\]]+)\]{1,2}\s*(?:[#;].*)?$`)

// closers begin lines that end what stands above them.
var closers = regexp.MustCompile(`^(?:[}\])]|\*/|end\b|fi\b|done\b|esac\b|else\b|elif\b|elsif\b|except\b|finally\b|catch\b|rescue\b|ensure\b)`)

// codeBlocks cuts source at the lines that stand at the left margin after a
// blank line and do not close anything: the same rule serves braces, begin
// and end, and indentation. Comments and decorators stay with what follows.
func codeBlocks(text string) []block {
	blocks := []block{{code: true}}
	blank, comment := true, false
	for at := 0; at < len(text); {
		n := firstLine(text[at:])
		line := strings.TrimRight(text[at:at+n], "\n\r \t")
		margin := line != "" && line[0] != ' ' && line[0] != '\t'
		name := declared(line)
		if margin && !closers.MatchString(line) && (blank || name != "" && !comment) && at > blocks[len(blocks)-1].start {
			blocks = append(blocks, block{start: at, fresh: true, code: true})
		}
		if last := &blocks[len(blocks)-1]; margin && name != "" && last.path == nil {
			last.path = []string{name}
		}
		blank = line == ""
		comment = margin && strings.ContainsAny(line[:1], "/#@*-;%\"'")
		at += n
	}
	return contiguous(blocks, len(text))
}

func declared(line string) string {
	if len(line) > 400 {
		return ""
	}
	if m := declaration.FindStringSubmatch(line); m != nil {
		return shorten(m[1] + " " + strings.TrimRight(m[2], ":."))
	}
	if m := sectionLine.FindStringSubmatch(line); m != nil {
		return shorten(strings.TrimSpace(m[1]))
	}
	return ""
}
