package extract

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
	"github.com/wlynxg/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/unicode/norm"

	"github.com/ondol-app/ondol/internal/document"
)

// decode finds the character set of raw and returns it as UTF-8. The order
// matters: a byte order mark is a promise; valid UTF-8 is hardly ever an
// accident and must not reach a binary detector (a 4 KB Korean Markdown looks
// binary to several); UTF-16 shows itself by NULs; only then is the content
// sniffed for binary formats, and only then are older character sets tried.
func decode(raw []byte) (text, charset string, err error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return "", "utf-8", &SkipError{Reason: document.ReasonEmpty}
	}
	switch {
	case bytes.HasPrefix(raw, []byte("\xEF\xBB\xBF")):
		if utf8.Valid(raw[3:]) {
			return textual(string(raw[3:]), "utf-8")
		}
	case bytes.HasPrefix(raw, []byte("\xFF\xFE\x00\x00")), bytes.HasPrefix(raw, []byte("\x00\x00\xFE\xFF")):
		return "", "", &SkipError{Reason: document.ReasonEncoding, Detail: "utf-32"}
	case bytes.HasPrefix(raw, []byte("\xFF\xFE")):
		return textual(decodeUTF16(raw[2:], binary.LittleEndian), "utf-16le")
	case bytes.HasPrefix(raw, []byte("\xFE\xFF")):
		return textual(decodeUTF16(raw[2:], binary.BigEndian), "utf-16be")
	}
	hasNUL := bytes.IndexByte(raw, 0) >= 0
	if !hasNUL && utf8.Valid(raw) {
		if format := documentFormat(raw); format != "" {
			return "", "", &SkipError{Reason: document.ReasonUnsupported, Detail: format}
		}
		if manyControls(raw) {
			return "", "", &SkipError{Reason: document.ReasonBinary}
		}
		return string(raw), "utf-8", nil
	}
	if hasNUL {
		if text, order, ok := plainUTF16(raw); ok {
			return text, order, nil
		}
	}
	if err := sniffBinary(raw, hasNUL); err != nil {
		return "", "", err
	}
	return decodeLegacy(raw)
}

// textual is what a byte order mark promises to be text, unless control
// characters show that the mark was an accident.
func textual(text, charset string) (string, string, error) {
	if manyControls([]byte(text)) {
		return "", "", &SkipError{Reason: document.ReasonBinary}
	}
	return text, charset, nil
}

// decodeLegacy handles bytes that are neither UTF-8 nor UTF-16 nor binary.
func decodeLegacy(raw []byte) (text, charset string, err error) {
	if text, ok := mostlyUTF8(raw); ok {
		return text, "utf-8", nil
	}
	if text, ok := asKorean(raw); ok {
		return text, "euc-kr", nil
	}
	guess := chardet.Detect(raw[:min(len(raw), 64<<10)])
	if western(guess.Encoding) && guess.Confidence >= 0.7 && mostlyASCII(raw) {
		if text, ok := decodeWith(charmap.Windows1252, raw); ok {
			return text, "windows-1252", nil
		}
	}
	return "", "", &SkipError{Reason: document.ReasonEncoding, Detail: strings.ToLower(guess.Encoding)}
}

func western(name string) bool {
	name = strings.ToLower(name)
	return name == "windows-1252" || name == "iso-8859-1" || name == "iso-8859-15"
}

func decodeWith(enc encoding.Encoding, raw []byte) (string, bool) {
	out, err := enc.NewDecoder().Bytes(raw)
	return string(out), err == nil && !bytes.ContainsRune(out, utf8.RuneError)
}

// mostlyUTF8 accepts UTF-8 with a few broken bytes, such as a log that was
// cut in the middle of a character. In any other character set nearly every
// byte above 127 is broken as UTF-8, so 1 in 20 keeps a wide distance.
func mostlyUTF8(raw []byte) (string, bool) {
	good, bad := 0, 0
	for i := 0; i < len(raw); {
		if raw[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && size == 1 {
			bad++
		} else {
			good++
		}
		i += size
	}
	if good == 0 || bad*20 > good {
		return "", false
	}
	return strings.ToValidUTF8(string(raw), string(utf8.RuneError)), true
}

// commonSyllables are the particles, endings and stems without which no
// paragraph of Korean is written; together they are about a third of running
// text, and by chance (11172 syllables, 2350 of them in EUC-KR) about 2 %.
const commonSyllables = "이다는을의에가고한하지로를도은서사어그자기있나리아과대인시해라스일정보들만면부수안전원장제주조"

// asKorean decodes CP949, which EUC-KR is a part of, when the result reads as
// Korean. That it decodes without an error proves nothing: Japanese and
// Chinese text does too, as Hanja, letters of the Jamo row and rare syllables.
func asKorean(raw []byte) (string, bool) {
	text, ok := decodeWith(korean.EUCKR, raw)
	if !ok {
		return "", false
	}
	syllables, common, other := 0, 0, 0
	for _, r := range text {
		switch {
		case unicode.Is(unicode.Hangul, r) && r >= 0xAC00:
			syllables++
			if strings.ContainsRune(commonSyllables, r) {
				common++
			}
		case r >= 0x2000 && r < 0x3000, r >= 0x3000 && r < 0x3020, r >= 0xFF00:
			// Bullets, arrows, quotation marks and full-width forms belong to every East Asian text.
		case r >= utf8.RuneSelf:
			other++
		}
	}
	if syllables == 0 || other*5 > syllables {
		return "", false
	}
	if syllables < 20 { // too little for frequencies: take it when hardly anything speaks against it
		return text, other*10 <= syllables
	}
	return text, common*8 >= syllables
}

// minUTF16 is the fewest characters that are taken for UTF-16 without a byte
// order mark. Of fewer, a row of small numbers may look like text by chance.
const minUTF16 = 16

// plainUTF16 recognises UTF-16 without a byte order mark. Only bytes with NULs
// come here: in text they are halves of spaces and line ends, so one of these
// must be there, and a single control character speaks against it.
func plainUTF16(raw []byte) (text, charset string, ok bool) {
	if len(raw)%2 != 0 || len(raw) < 2*minUTF16 {
		return "", "", false
	}
	le, be := decodeUTF16(raw, binary.LittleEndian), decodeUTF16(raw, binary.BigEndian)
	sle, sbe := plausible(le), plausible(be)
	if !spaced(le) {
		sle = 0
	}
	if !spaced(be) {
		sbe = 0
	}
	const sure = 0.95
	switch {
	case sle >= sure && sle > sbe:
		return le, "utf-16le", true
	case sbe >= sure && sbe > sle:
		return be, "utf-16be", true
	}
	return "", "", false
}

// spaced reports whether text has white space and no control character.
func spaced(text string) bool {
	return strings.ContainsAny(text, " \n\r\t") && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t\f\uFEFF", r)
	})
}

func decodeUTF16(raw []byte, order binary.ByteOrder) string {
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	return string(utf16.Decode(units))
}

// plausible is the share of text that is made of characters people write:
// white space, ASCII, Latin, Hangul, Kana, common Han, punctuation.
func plausible(text string) float64 {
	good, all := 0, 0
	for _, r := range text {
		all++
		switch {
		case r == '\n' || r == '\r' || r == '\t', r >= 0x20 && r < 0x7F, r >= 0xA0 && r < 0x250,
			r >= 0x370 && r < 0x530, r >= 0x2010 && r < 0x2070, r >= 0x3000 && r < 0x3100,
			r >= 0x4E00 && r < 0x9FB0, r >= 0xAC00 && r <= 0xD7A3, r >= 0xFF01 && r < 0xFF60, r >= 0x1F300 && r < 0x1FB00:
			good++
		}
	}
	if all == 0 {
		return 0
	}
	return float64(good) / float64(all)
}

// sniffBinary tells document formats that are not read yet from plain binary.
func sniffBinary(raw []byte, hasNUL bool) error {
	if format := documentFormat(raw); format != "" {
		return &SkipError{Reason: document.ReasonUnsupported, Detail: format}
	}
	mime := mimetype.Detect(raw)
	for m := mime; m != nil; m = m.Parent() {
		if m.Is("text/plain") {
			if hasNUL || manyControls(raw) {
				break
			}
			return nil
		}
	}
	if !hasNUL && mime.Is("application/octet-stream") && !manyControls(raw) {
		return nil // unknown to the sniffer and free of control characters: an older character set
	}
	return &SkipError{Reason: document.ReasonBinary, Detail: mime.String()}
}

// documentFormat names the formats that hold text but are not read yet.
func documentFormat(raw []byte) string {
	switch {
	case bytes.HasPrefix(raw, []byte("%PDF-")):
		return "pdf"
	case bytes.HasPrefix(raw, []byte(`{\rtf`)):
		return "rtf"
	case bytes.HasPrefix(raw, []byte("PK\x03\x04")):
		return "zip"
	case bytes.HasPrefix(raw, []byte("\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1")):
		return "ole"
	case bytes.HasPrefix(raw, []byte("HWP Document File")):
		return "hwp"
	}
	return ""
}

// manyControls reports whether control characters that text does not use make
// up more than 1 % of raw. Form feed, escape (terminal logs) and backspace
// (old manuals) are part of text.
func manyControls(raw []byte) bool {
	n := 0
	for _, b := range raw {
		if (b < 0x20 && b != '\n' && b != '\r' && b != '\t' && b != '\f' && b != 0x1B && b != '\b') || b == 0x7F {
			n++
		}
	}
	return n*100 > len(raw)
}

func mostlyASCII(raw []byte) bool {
	high := 0
	for _, b := range raw {
		if b >= utf8.RuneSelf {
			high++
		}
	}
	return high*4 < len(raw)
}

// normalise gives text its one form in the index: NFC (macOS hands out
// decomposed Hangul), \n line ends, no NUL, no byte order mark inside.
func normalise(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", " ", "\uFEFF", "").Replace(text)
	return norm.NFC.String(text)
}
