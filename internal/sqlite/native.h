//go:build cgo

// What the C files of this package share. They are compiled against the
// system's sqlite3.h and linked with the SQLite that the driver carries.
#ifndef ONDOL_NATIVE_H
#define ONDOL_NATIVE_H

#include <sqlite3.h>

// ondol_register makes SQLite call ondol_attach for each connection that is
// opened from now on. Returns an SQLite result code.
int ondol_register(void);

// Each adds its part to a connection; returns an SQLite result code.
int ondol_add_tokenizer(sqlite3 *db, fts5_api *api); // FTS5 tokenizer "ondol"
int ondol_add_tokens(sqlite3 *db, fts5_api *api);    // ondol_tokens(text, query)
int ondol_add_rank(fts5_api *api);                   // ondol_stats, ondol_score, ondol_matched
int ondol_add_cosine(sqlite3 *db);                   // ondol_dot(f16 blob, f32 blob)

#endif
