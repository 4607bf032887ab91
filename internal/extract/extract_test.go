package extract_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/document"
	"github.com/ondol-app/ondol/internal/extract"
)

const (
	koreanText = "2026년 예산안을 국회에 제출하였다. 연구개발 투자는 지난해보다 늘어났고, 복지 지출도 함께 확대된다.\n" +
		"회의는 다음 주 월요일 오전 열 시에 시작하며 자료는 미리 나누어 준다.\n"
	japaneseText = "明日の会議は午前十時から始まります。資料は事前に配布してください。研究開発の予算が増えました。\n"
	chineseText  = "明天的会议上午十点开始，请提前分发资料。研究开发的预算比去年增加了，福利支出也将扩大。\n"
)

func encode(t *testing.T, enc encoding.Encoding, s string) []byte {
	t.Helper()
	b, err := enc.NewEncoder().Bytes([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadCharsets(t *testing.T) {
	le := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	be := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	for _, tc := range []struct {
		name    string
		raw     []byte
		want    string
		charset string
	}{
		{"utf-8", []byte(koreanText), koreanText, "utf-8"},
		{"utf-8 with mark", []byte("\uFEFF" + koreanText), koreanText, "utf-8"},
		{"decomposed", []byte(norm.NFD.String(koreanText)), koreanText, "utf-8"},
		{"windows line ends", []byte("one\r\ntwo\rthree\n"), "one\ntwo\nthree\n", "utf-8"},
		{"utf-16 little endian with mark", append([]byte{0xFF, 0xFE}, encode(t, le, koreanText)...), koreanText, "utf-16le"},
		{"utf-16 big endian with mark", append([]byte{0xFE, 0xFF}, encode(t, be, koreanText)...), koreanText, "utf-16be"},
		{"utf-16 little endian, Korean, no mark", encode(t, le, koreanText), koreanText, "utf-16le"},
		{"utf-16 big endian, Korean, no mark", encode(t, be, koreanText), koreanText, "utf-16be"},
		// Every byte of it is ASCII, so it is valid UTF-8 with NULs.
		{"utf-16 little endian, English, no mark", encode(t, le, "plain words here\n"), "plain words here\n", "utf-16le"},
		{"euc-kr", encode(t, korean.EUCKR, koreanText), koreanText, "euc-kr"},
		{"euc-kr, 24 bytes", encode(t, korean.EUCKR, "계약서 분석 보고서 초안"), "계약서 분석 보고서 초안", "euc-kr"},
		{"cp949 beyond euc-kr", encode(t, korean.EUCKR, "똠방각하와 뷁, 펲시콜라 이야기를 한다"), "똠방각하와 뷁, 펲시콜라 이야기를 한다", "euc-kr"},
		{"korean comments in code", encode(t, korean.EUCKR, "int main(void) { return 0; } // 시작 지점\n"), "int main(void) { return 0; } // 시작 지점\n", "euc-kr"},
		{"latin-1", encode(t, charmap.Windows1252, "Le café est près de la gare. Où êtes-vous allé cet été? Voilà une très belle journée.\n"),
			"Le café est près de la gare. Où êtes-vous allé cet été? Voilà une très belle journée.\n", "windows-1252"},
		{"utf-8 cut inside a character", []byte(koreanText + "끝"[:2]), koreanText + "\uFFFD", "utf-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := extract.Read(t.Context(), write(t, "note.txt", tc.raw), extract.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if got.Content != tc.want || got.Charset != tc.charset {
				t.Errorf("got %q (%s), want %q (%s)", got.Content, got.Charset, tc.want, tc.charset)
			}
		})
	}
}

func TestReadSkips(t *testing.T) {
	elf := append([]byte("\x7FELF\x02\x01\x01\x00"), bytes.Repeat([]byte{0, 1, 2, 3, 200, 255, 17}, 500)...)
	for _, tc := range []struct {
		name, file string
		raw        []byte
		want       document.Reason
	}{
		{"empty", "a.txt", nil, document.ReasonEmpty},
		{"blank", "a.md", []byte(" \n\t\r\n"), document.ReasonEmpty},
		{"only a mark", "a.md", []byte("\uFEFF\n"), document.ReasonEmpty},
		{"executable", "a", elf, document.ReasonBinary},
		{"executable called text", "a.txt", elf, document.ReasonBinary},
		{"picture called text", "a.txt", append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), elf...), document.ReasonBinary},
		{"pdf", "a.pdf", []byte("%PDF-1.7\n"), document.ReasonUnsupported},
		{"pdf called text", "a.txt", []byte("%PDF-1.7\n1 0 obj\n<<>>\nendobj\n"), document.ReasonUnsupported},
		{"office called text", "a.txt", append([]byte("PK\x03\x04\x14\x00"), elf...), document.ReasonUnsupported},
		{"film by name", "a.mp4", []byte("x"), document.ReasonBinary},
		{"too large", "a.txt", bytes.Repeat([]byte("word "), 300), document.ReasonTooLarge},
		// Decodes as EUC-KR without a single error.
		{"euc-jp", "a.txt", encode(t, japanese.EUCJP, japaneseText), document.ReasonEncoding},
		{"gb2312", "a.txt", encode(t, simplifiedchinese.GBK, chineseText), document.ReasonEncoding},
		{"ten bytes that could be UTF-16", "a.txt", []byte("\x01\x00\x02\x00\x01\x00\x02\x00\x01\x00"), document.ReasonBinary},
		{"NULs and a line end", "a.txt", []byte("\x00\x0a\x00\x09\x00\x41\x00\x42\x00\x43"), document.ReasonBinary},
		{"many small numbers", "a.txt", bytes.Repeat([]byte("\x01\x00\x02\x00"), 100), document.ReasonBinary},
		{"small numbers behind a mark", "a.txt", []byte("\xFF\xFE\x00\x00\x01\x00\x02\x00\x03\x00")[:10], document.ReasonEncoding},
		{"control characters behind a mark", "a.txt", []byte("\xFF\xFE\x01\x00\x02\x00\x03\x00\x00\x00"), document.ReasonBinary},
		{"NULs behind a mark", "a.txt", []byte("\uFEFF\x00\x00\x01\x02"), document.ReasonBinary},
		{"ssh key", "a.txt", []byte("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n-----END OPENSSH PRIVATE KEY-----\n"), document.ReasonPrivateKey},
		{"key after a mark and blank lines", "a", []byte("\uFEFF\r\n\r\n-----BEGIN PRIVATE KEY-----\r\nMII=\r\n"), document.ReasonPrivateKey},
		{"openpgp key", "a.asc", []byte("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ=\n"), document.ReasonPrivateKey},
		{"certificate and key", "a.crt", []byte("-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nMII=\n"), document.ReasonPrivateKey},
		{"service account", "a.json", []byte("{\n \"type\": \"service_account\",\n \"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMII\"\n}"), document.ReasonPrivateKey},
		{"putty key", "a", []byte("PuTTY-User-Key-File-3: ssh-ed25519\n"), document.ReasonPrivateKey},
		{"key with Keynote's ending", "server.key", []byte("-----BEGIN RSA PRIVATE KEY-----\nMII=\n"), document.ReasonUnsupported},
		{"noise", "a.txt", []byte("\x01\x02\x03\x04\x05abc\x06\x07"), document.ReasonBinary},
	} {
		t.Run(tc.name, func(t *testing.T) {
			limits := extract.DefaultLimits()
			if tc.want == document.ReasonTooLarge {
				limits.MaxBytes = int64(len(tc.raw)) - 1
			}
			_, err := extract.Read(t.Context(), write(t, tc.file, tc.raw), limits)
			var skip *extract.SkipError
			if !errors.As(err, &skip) || skip.Reason != tc.want || extract.ReasonOf(err) != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// What is public, or only speaks of keys, is text.
func TestReadTextAboutKeys(t *testing.T) {
	for name, content := range map[string]string{
		"a.asc":  "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ=\n",
		"a.crt":  "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n",
		"a.md":   "# Keys\n\nA key begins with\n\n-----BEGIN PRIVATE KEY-----\n",
		"a.json": `{"private_key": "see the safe"}`,
	} {
		if _, err := extract.Read(t.Context(), write(t, name, []byte(content)), extract.DefaultLimits()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A 4 KB Korean Markdown must never be taken for binary, wherever it is cut.
func TestReadKoreanMarkdownIsText(t *testing.T) {
	body := "# 회의록\n\n" + strings.Repeat(koreanText, 40)
	for size := 4080; size <= 4110; size++ {
		if _, err := extract.Read(t.Context(), write(t, "a.md", []byte(body[:size])), extract.DefaultLimits()); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Opening a fifo for reading waits for a writer unless it is done with care.
func TestReadNeverOpensSpecialFiles(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "real.txt")
	if err := os.WriteFile(target, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.txt")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo.txt")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir) // socket paths are limited to about 100 bytes
	l, err := net.Listen("unix", "socket.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, path := range []string{link, fifo, filepath.Join(dir, "socket.txt"), dir, "/dev/null"} {
		_, err := extract.Read(t.Context(), path, extract.DefaultLimits())
		if extract.ReasonOf(err) != document.ReasonUnsupported {
			t.Errorf("%s: got %v, want a skip as unsupported", path, err)
		}
	}
}

func TestReadFailures(t *testing.T) {
	_, err := extract.Read(t.Context(), filepath.Join(t.TempDir(), "gone.txt"), extract.DefaultLimits())
	if !errors.Is(err, os.ErrNotExist) || extract.ReasonOf(err) != document.ReasonUnreadable {
		t.Errorf("missing file: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := extract.Read(ctx, write(t, "a.txt", []byte("text")), extract.DefaultLimits()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if got := extract.ReasonOf(&os.PathError{Op: "open", Path: "x", Err: syscall.EPERM}); got != document.ReasonDenied {
		t.Errorf("EPERM is %q", got)
	}
	if got := extract.ReasonOf(extract.ErrChanging); got != document.ReasonChanging {
		t.Errorf("changing is %q", got)
	}
}

func TestReadKindTitleLanguage(t *testing.T) {
	for _, tc := range []struct {
		file, content, title, language string
		kind                           document.Kind
	}{
		{"plan.md", "intro\n\n## First [step](x.md) **now** ##\n\n# Second\n", "First step now", "", document.KindMarkdown},
		{"plan.md", "---\nlayout: x\ntitle: \"분기 계획\"\n---\n# Other\n", "분기 계획", "", document.KindMarkdown},
		{"plan.md", "+++\ntitle = 'Toml'\n+++\ntext\n", "Toml", "", document.KindMarkdown},
		{"plan.md", "```sh\n# not a title\n```\n\nReal title\n==========\n", "Real title", "", document.KindMarkdown},
		{"plan.md", "no heading\n", "", "", document.KindMarkdown},
		{"plan.MD", "# Upper\n", "Upper", "", document.KindMarkdown},
		{"notes.txt", "# just text\n", "", "", document.KindText},
		{"main.go", "package main\n", "", "go", document.KindCode},
		{"Makefile", "all:\n", "", "makefile", document.KindCode},
		{"run", "#!/usr/bin/env python3 -u\nprint()\n", "", "python", document.KindCode},
		{"run", "#!/bin/bash\n", "", "shell", document.KindCode},
		{"page", "<!DOCTYPE html>\n<p>", "", "html", document.KindCode},
		{"README", "Hello\n", "", "", document.KindText},
	} {
		t.Run(tc.file+" "+tc.title, func(t *testing.T) {
			got, err := extract.Read(t.Context(), write(t, tc.file, []byte(tc.content)), extract.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if got.Title != tc.title || got.Kind != tc.kind || got.Language != tc.language {
				t.Errorf("got title %q kind %q language %q", got.Title, got.Kind, got.Language)
			}
			if got.Hash != document.HashText(tc.content) {
				t.Errorf("hash %s is not that of the raw bytes", got.Hash)
			}
		})
	}
}
