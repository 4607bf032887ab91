package extract

import (
	"regexp"
	"strings"
)

// keyBlock is the line before a private key as OpenSSL, OpenSSH and OpenPGP
// write it (RFC 7468, RFC 9580 section 6.2.1).
var keyBlock = regexp.MustCompile(`(?m)^[ \t]*-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`)

// jsonKey is a private key inside JSON, as in the files of service accounts.
var jsonKey = regexp.MustCompile(`^\s*\{[^{}]*"private_key"\s*:\s*"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----`)

// privateKey reports whether content is a private key: it begins with one, or
// with a certificate that one follows. A text that shows a key in its middle,
// such as a manual, is a text.
func privateKey(content string) bool {
	begin := strings.TrimLeft(content, " \t\n")
	switch {
	case strings.HasPrefix(begin, "-----BEGIN "):
		return keyBlock.MatchString(begin)
	case strings.HasPrefix(begin, "{"):
		return jsonKey.MatchString(begin)
	}
	return strings.HasPrefix(begin, "PuTTY-User-Key-File-") || strings.HasPrefix(begin, "AGE-SECRET-KEY-1")
}
