//go:build cgo

#include "native.h"

// fts5_of asks a connection for its FTS5 API in the documented way:
// https://www.sqlite.org/fts5.html#extending_fts5
static int fts5_of(sqlite3 *db, fts5_api **api) {
  sqlite3_stmt *stmt = 0;
  *api = 0;
  int rc = sqlite3_prepare_v2(db, "SELECT fts5(?1)", -1, &stmt, 0);
  if (rc != SQLITE_OK) return rc;
  sqlite3_bind_pointer(stmt, 1, (void *)api, "fts5_api_ptr", 0);
  sqlite3_step(stmt);
  rc = sqlite3_finalize(stmt);
  if (rc == SQLITE_OK && *api == 0) rc = SQLITE_ERROR;
  return rc;
}

static int ondol_attach(sqlite3 *db, const char **message, const void *unused) {
  fts5_api *api;
  (void)unused;
  int rc = fts5_of(db, &api);
  if (rc == SQLITE_OK) rc = ondol_add_tokenizer(db, api);
  if (rc == SQLITE_OK) rc = ondol_add_tokens(db, api);
  if (rc == SQLITE_OK) rc = ondol_add_rank(api);
  if (rc == SQLITE_OK) rc = ondol_add_cosine(db);
  if (rc != SQLITE_OK && message) *message = sqlite3_mprintf("attach ondol functions (is FTS5 compiled in?)");
  return rc;
}

int ondol_register(void) { return sqlite3_auto_extension((void (*)(void))ondol_attach); }
