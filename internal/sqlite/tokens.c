//go:build cgo

// ondol_tokens(text, query) cuts text as the index does ("porter ondol") and
// returns the tokens as one blob, so that Go never cuts text in a way of its own.
// query: 1 cuts as a MATCH phrase is cut, 0 as a document is.
//
// The blob is a row of records: position, start, end, length of the token as
// int32 in the machine's byte order, then the token's bytes.
#include <stdint.h>
#include <string.h>

#include "native.h"

typedef struct {
  fts5_tokenizer porter;
  Fts5Tokenizer *instance;
} cutter;

typedef struct {
  char *data;
  int64_t used, room;
  int32_t position;  // of the token last written; -1 before the first
} buffer;

static int on_token(void *p, int tflags, const char *token, int n, int start, int end) {
  buffer *b = p;
  int64_t need = b->used + 16 + n;
  if (need > b->room) {
    int64_t room = need * 2 + 1024;
    char *data = sqlite3_realloc64(b->data, room);
    if (!data) return SQLITE_NOMEM;
    b->data = data;
    b->room = room;
  }
  if (!(tflags & FTS5_TOKEN_COLOCATED)) b->position++;
  int32_t head[4] = {b->position, start, end, n};
  memcpy(b->data + b->used, head, sizeof head);
  memcpy(b->data + b->used + sizeof head, token, n);
  b->used = need;
  return SQLITE_OK;
}

static void tokens(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  cutter *c = sqlite3_user_data(ctx);
  buffer b = {0, 0, 0, -1};
  (void)argc;
  const char *text = (const char *)sqlite3_value_text(argv[0]);
  int n = sqlite3_value_bytes(argv[0]);
  int flags = sqlite3_value_int(argv[1]) ? FTS5_TOKENIZE_QUERY : FTS5_TOKENIZE_DOCUMENT;
  int rc = text ? c->porter.xTokenize(c->instance, &b, flags, text, n, on_token) : SQLITE_OK;
  if (rc != SQLITE_OK) {
    sqlite3_free(b.data);
    sqlite3_result_error_code(ctx, rc);
  } else if (!b.data) {
    sqlite3_result_zeroblob(ctx, 0);
  } else {
    sqlite3_result_blob64(ctx, b.data, b.used, sqlite3_free);
  }
}

static void drop(void *p) {
  cutter *c = p;
  if (c->instance) c->porter.xDelete(c->instance);
  sqlite3_free(c);
}

int ondol_add_tokens(sqlite3 *db, fts5_api *api) {
  const char *base[] = {"ondol"};
  void *data = 0;
  cutter *c = sqlite3_malloc(sizeof *c);
  if (!c) return SQLITE_NOMEM;
  memset(c, 0, sizeof *c);
  int rc = api->xFindTokenizer(api, "porter", &data, &c->porter);
  if (rc == SQLITE_OK) rc = c->porter.xCreate(data, base, 1, &c->instance);
  if (rc != SQLITE_OK) {
    sqlite3_free(c);
    return rc;
  }
  // On failure SQLite calls drop itself.
  return sqlite3_create_function_v2(db, "ondol_tokens", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, c, tokens, 0, 0, drop);
}
