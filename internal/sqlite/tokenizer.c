//go:build cgo

// The FTS5 tokenizer "ondol". docs/adr/0001-fts5-tokenizer.md says why.
//
// Text is cut at the borders between CJK (Hangul, Han, Kana, Bopomofo) and
// everything else.
//
//   CJK run of n >= 2   overlapping bigrams, one position each (n-1 in all).
//                       In documents the last character also stands alone at
//                       the last position, so that a prefix query for one
//                       character finds it wherever it is in the run.
//   CJK run of 1        the character.
//   the rest            words of FTS5's own unicode61, case and diacritics
//                       folded. An ASCII word that changes case or goes over
//                       from letters to digits ("getUserId", "gpt4") becomes
//                       its parts, one position each, with the whole word
//                       beside the first.
//
// Guarantees: bytes that are not UTF-8 never end up in a CJK token; offsets lie
// within the text; of the tokens that are not colocated, starts and ends rise
// strictly (highlight() copies backwards without end otherwise). A query is cut
// by the same code; only the single last character is left out, because there
// it would be a synonym of the last bigram.
#include <stdint.h>
#include <string.h>

#include "native.h"

// Longer words (base64, minified code) are kept whole: their parts are noise.
#define MAX_WORD 64
// More parts than this means a hash or a key, not a name.
#define MAX_PARTS 6

typedef int (*token_fn)(void *, int, const char *, int, int, int);

typedef struct {
  fts5_tokenizer base;   // unicode61
  Fts5Tokenizer *words;  // an instance of it
} tokenizer;

typedef struct {
  void *ctx;         // of emit
  token_fn emit;     // where tokens go
  const char *text;  // the stretch being cut
  int shift;         // byte offset of text within the whole
} sink;

// decode reads one character of strictly valid UTF-8; returns its length or 0.
static int decode(const unsigned char *s, int n, uint32_t *c) {
  if (n < 1) return 0;
  if (s[0] < 0x80) {
    *c = s[0];
    return 1;
  }
  int len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4 || n < len) return 0;
  uint32_t v = s[0] & (0x7F >> len);
  for (int i = 1; i < len; i++) {
    if ((s[i] & 0xC0) != 0x80) return 0;
    v = v << 6 | (s[i] & 0x3F);
  }
  if (len == 3 && (v < 0x800 || (v >= 0xD800 && v <= 0xDFFF))) return 0;
  if (len == 4 && (v < 0x10000 || v > 0x10FFFF)) return 0;
  *c = v;
  return len;
}

static int is_cjk(uint32_t c) {
  if (c < 0x1100) return 0;
  return c <= 0x11FF                                  // Hangul jamo
         || c == 0x3005 || c == 0x3006 || c == 0x3007 // 々 〆 〇
         || (c >= 0x3031 && c <= 0x3035)              // vertical kana repeat marks
         || (c >= 0x3041 && c <= 0x3096)              // Hiragana
         || (c >= 0x309D && c <= 0x309F)              // Hiragana iteration marks
         || (c >= 0x30A1 && c <= 0x30FA)              // Katakana
         || (c >= 0x30FC && c <= 0x30FF)              // long vowel mark, iteration marks
         || (c >= 0x3105 && c <= 0x312F)              // Bopomofo
         || (c >= 0x3131 && c <= 0x318E)              // Hangul compatibility jamo
         || (c >= 0x31A0 && c <= 0x31BF)              // Bopomofo extended
         || (c >= 0x31F0 && c <= 0x31FF)              // Katakana phonetic extensions
         || (c >= 0x3400 && c <= 0x4DBF)              // Han extension A
         || (c >= 0x4E00 && c <= 0x9FFF)              // Han
         || (c >= 0xA960 && c <= 0xA97C)              // Hangul jamo extended A
         || (c >= 0xAC00 && c <= 0xD7A3)              // Hangul syllables
         || (c >= 0xD7B0 && c <= 0xD7FB)              // Hangul jamo extended B
         || (c >= 0xF900 && c <= 0xFAFF)              // Han compatibility ideographs
         || (c >= 0xFF66 && c <= 0xFF9F)              // halfwidth Katakana
         || (c >= 0xFFA1 && c <= 0xFFDC)              // halfwidth Hangul
         || (c >= 0x1AFF0 && c <= 0x1B16F)            // Kana extensions
         || (c >= 0x20000 && c <= 0x3FFFF);           // Han extensions B and later
}

// is_joined tells what clings to the CJK character before it and is no part of
// a token: variation selectors and the loose voiced-sound marks of decomposed kana.
static int is_joined(uint32_t c) {
  return c == 0x3099 || c == 0x309A || (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0xE0100 && c <= 0xE01EF);
}

static int class_of(char c) {
  if (c >= 'a' && c <= 'z') return 'a';
  if (c >= 'A' && c <= 'Z') return 'A';
  if (c >= '0' && c <= '9') return '0';
  return 0;
}

// cut_word finds the parts of an ASCII word: cuts[i] is where part i begins,
// cuts[count] the end. Returns the count, 1 when the word stays whole.
static int cut_word(const char *s, int n, int cuts[MAX_PARTS + 1]) {
  int count = 1;
  cuts[0] = 0;
  if (n < 2 || n > MAX_WORD) return 1;
  int before = class_of(s[0]);
  if (!before) return 1;
  for (int i = 1; i < n; i++) {
    int now = class_of(s[i]);
    if (!now) return 1;
    int at = -1;
    if (before == 'A' && now == 'a') {
      // "HTTPServer": the last capital begins the next part; "Http" has none before it.
      if (i - 1 > cuts[count - 1]) at = i - 1;
    } else if (before != now) {
      at = i;
    }
    if (at > 0) {
      if (count == MAX_PARTS) return 1;
      cuts[count++] = at;
    }
    before = now;
  }
  cuts[count] = n;
  return count;
}

// on_word takes a word from unicode61.
static int on_word(void *p, int tflags, const char *token, int n, int start, int end) {
  sink *s = p;
  int cuts[MAX_PARTS + 1];
  int parts = 1;
  // Folding an ASCII word keeps its length; where lengths differ it is not one.
  if (n == end - start) parts = cut_word(s->text + start, n, cuts);
  start += s->shift;
  end += s->shift;
  if (parts == 1) return s->emit(s->ctx, tflags, token, n, start, end);
  int rc = s->emit(s->ctx, tflags, token, cuts[1], start, start + cuts[1]);
  if (rc == SQLITE_OK) rc = s->emit(s->ctx, FTS5_TOKEN_COLOCATED, token, n, start, end);
  for (int i = 1; rc == SQLITE_OK && i < parts; i++) {
    rc = s->emit(s->ctx, 0, token + cuts[i], cuts[i + 1] - cuts[i], start + cuts[i], start + cuts[i + 1]);
  }
  return rc;
}

// cjk_run emits the run that begins at *at and moves *at behind it.
static int cjk_run(sink *s, int flags, const char *text, int n, int *at) {
  char pair[8];
  int kept = 0, count = 0;  // bytes of the previous character in pair; characters so far
  int start = *at, end = *at, i = *at, rc = SQLITE_OK;
  while (i < n) {
    uint32_t c;
    int len = decode((const unsigned char *)text + i, n - i, &c);
    if (len && count && is_joined(c)) {
      i += len;
      continue;  // end stays: the mark is outside the token's offsets
    }
    if (!len || !is_cjk(c)) break;
    memcpy(pair + kept, text + i, len);
    if (count++) {
      rc = s->emit(s->ctx, 0, pair, kept + len, start, i + len);
      if (rc != SQLITE_OK) return rc;
      memmove(pair, pair + kept, len);
    }
    kept = len;
    start = i;
    end = i += len;
  }
  *at = i;
  if (count == 1) return s->emit(s->ctx, 0, pair, kept, start, end);
  if (flags & FTS5_TOKENIZE_QUERY) return SQLITE_OK;
  return s->emit(s->ctx, FTS5_TOKEN_COLOCATED, pair, kept, start, end);
}

static int tokenize(Fts5Tokenizer *self, void *ctx, int flags, const char *text, int n, token_fn emit) {
  tokenizer *t = (tokenizer *)self;
  sink s = {ctx, emit, text, 0};
  int i = 0, rc = SQLITE_OK;
  while (i < n && rc == SQLITE_OK) {
    int from = i;
    uint32_t c;
    for (int len; i < n; i += len ? len : 1) {
      len = decode((const unsigned char *)text + i, n - i, &c);
      if (len && is_cjk(c)) break;
    }
    if (i > from) {
      s.text = text + from;
      s.shift = from;
      rc = t->base.xTokenize(t->words, &s, flags, text + from, i - from, on_word);
    }
    if (rc == SQLITE_OK && i < n) rc = cjk_run(&s, flags, text, n, &i);
  }
  return rc;
}

static void destroy(Fts5Tokenizer *self) {
  tokenizer *t = (tokenizer *)self;
  if (t->words) t->base.xDelete(t->words);
  sqlite3_free(t);
}

static int create(void *ctx, const char **args, int n, Fts5Tokenizer **out) {
  static const char *options[] = {"remove_diacritics", "2"};
  fts5_api *api = ctx;
  void *data = 0;
  (void)args;
  if (n) return SQLITE_ERROR;  // it takes no options: one index, one way to cut
  tokenizer *t = sqlite3_malloc(sizeof *t);
  if (!t) return SQLITE_NOMEM;
  memset(t, 0, sizeof *t);
  int rc = api->xFindTokenizer(api, "unicode61", &data, &t->base);
  if (rc == SQLITE_OK) rc = t->base.xCreate(data, options, 2, &t->words);
  if (rc != SQLITE_OK) {
    sqlite3_free(t);
    return rc;
  }
  *out = (Fts5Tokenizer *)t;
  return SQLITE_OK;
}

int ondol_add_tokenizer(sqlite3 *db, fts5_api *api) {
  static fts5_tokenizer methods = {create, destroy, tokenize};
  (void)db;
  return api->xCreateTokenizer(api, "ondol", api, &methods, 0);
}
