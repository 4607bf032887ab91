//go:build cgo

// FTS5 auxiliary functions behind DB.Lexical. FTS5's own bm25() gives a word
// that stands in more than half of the rows no weight, which empties the answers
// of a small index, and it neither weighs phrases nor tells which of them matched.
//
//   ondol_stats(fts)    blob of int64: rows, tokens, then the rows that hold each phrase
//   ondol_score(fts, average, name, heading, body, weights)
//                       BM25 with k1 = 1.2 and b = 0.75 as in FTS5 and Lucene:
//                       sum over phrases of weight * tf*(k1+1) / (tf + k1*(1-b+b*size/average)),
//                       tf weighed by column; weights is a blob of float64, one a
//                       phrase, the inverse document frequency included
//   ondol_matched(fts)  the phrases (at most 63) that stand in the row, as bits
#include <stdint.h>

#include "native.h"

#define COLUMNS 3

static int count_row(const Fts5ExtensionApi *api, Fts5Context *fts, void *p) {
  (void)api, (void)fts;
  ++*(sqlite3_int64 *)p;
  return SQLITE_OK;
}

static void stats(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int phrases = api->xPhraseCount(fts);
  sqlite3_int64 *out = sqlite3_malloc64((phrases + 2) * sizeof *out);
  (void)argc, (void)argv;
  if (!out) {
    sqlite3_result_error_nomem(ctx);
    return;
  }
  int rc = api->xRowCount(fts, &out[0]);
  if (rc == SQLITE_OK) rc = api->xColumnTotalSize(fts, -1, &out[1]);
  for (int i = 0; rc == SQLITE_OK && i < phrases; i++) {
    out[2 + i] = 0;
    rc = api->xQueryPhrase(fts, i, &out[2 + i], count_row);
  }
  if (rc != SQLITE_OK) {
    sqlite3_free(out);
    sqlite3_result_error_code(ctx, rc);
    return;
  }
  sqlite3_result_blob64(ctx, out, (phrases + 2) * sizeof *out, sqlite3_free);
}

static void score(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  const double k1 = 1.2, b = 0.75;
  int phrases = api->xPhraseCount(fts), size = 0;
  const double *weights = argc == 5 ? sqlite3_value_blob(argv[4]) : 0;
  if (!weights || sqlite3_value_bytes(argv[4]) != phrases * (int)sizeof *weights) {
    sqlite3_result_error(ctx, "ondol_score: one weight a phrase is needed", -1);
    return;
  }
  double average = sqlite3_value_double(argv[0]), column[COLUMNS], sum = 0;
  for (int i = 0; i < COLUMNS; i++) column[i] = sqlite3_value_double(argv[1 + i]);
  int rc = api->xColumnSize(fts, -1, &size);
  double norm = k1 * (1 - b + b * size / (average > 0 ? average : 1));
  for (int i = 0; rc == SQLITE_OK && i < phrases; i++) {
    Fts5PhraseIter it;
    int col, off;
    double tf = 0;
    rc = api->xPhraseFirst(fts, i, &it, &col, &off);
    for (; rc == SQLITE_OK && col >= 0; api->xPhraseNext(fts, &it, &col, &off)) {
      if (col < COLUMNS) tf += column[col];
    }
    if (tf > 0) sum += weights[i] * tf * (k1 + 1) / (tf + norm);
  }
  if (rc != SQLITE_OK) {
    sqlite3_result_error_code(ctx, rc);
    return;
  }
  sqlite3_result_double(ctx, sum);
}

static void matched(const Fts5ExtensionApi *api, Fts5Context *fts, sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  int phrases = api->xPhraseCount(fts), rc = SQLITE_OK;
  sqlite3_int64 bits = 0;
  (void)argc, (void)argv;
  for (int i = 0; rc == SQLITE_OK && i < phrases && i < 63; i++) {
    Fts5PhraseIter it;
    int col, off;
    rc = api->xPhraseFirst(fts, i, &it, &col, &off);
    if (rc == SQLITE_OK && col >= 0) bits |= (sqlite3_int64)1 << i;
  }
  if (rc != SQLITE_OK) {
    sqlite3_result_error_code(ctx, rc);
    return;
  }
  sqlite3_result_int64(ctx, bits);
}

int ondol_add_rank(fts5_api *api) {
  int rc = api->xCreateFunction(api, "ondol_stats", 0, stats, 0);
  if (rc == SQLITE_OK) rc = api->xCreateFunction(api, "ondol_score", 0, score, 0);
  if (rc == SQLITE_OK) rc = api->xCreateFunction(api, "ondol_matched", 0, matched, 0);
  return rc;
}
