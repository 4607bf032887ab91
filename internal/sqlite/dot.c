//go:build cgo

// ondol_dot(a, b): dot product of a, IEEE half precision little-endian, and b,
// IEEE single precision little-endian, of equal dimension; NULL when the
// dimensions differ. In SQL, so that a scan hands only its best rows to Go.
#include <stdint.h>
#include <string.h>

#include "native.h"

#define LANES 16

// half widens without branches: the exponent is moved into place and its bias
// (127 - 15 = 112) made good by one multiplication, which also brings
// subnormals right. Infinities and NaN are not handled; none is ever stored.
static inline float half(uint16_t h) {
  uint32_t bits = (uint32_t)(h & 0x8000) << 16 | (uint32_t)(h & 0x7FFF) << 13;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f * 0x1p112f;
}

static void dot(sqlite3_context *ctx, int argc, sqlite3_value **argv) {
  (void)argc;
  const unsigned char *a = sqlite3_value_blob(argv[0]);
  const unsigned char *b = sqlite3_value_blob(argv[1]);
  int n = sqlite3_value_bytes(argv[0]) / 2;
  if (!a || !b || sqlite3_value_bytes(argv[0]) != n * 2 || sqlite3_value_bytes(argv[1]) != n * 4) return;
  // Independent sums, so that the compiler can keep them in vector registers.
  float lane[LANES] = {0};
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    uint16_t h[LANES];
    float f[LANES];
    memcpy(h, a + 2 * (size_t)i, sizeof h);  // blobs need not be aligned
    memcpy(f, b + 4 * (size_t)i, sizeof f);
    for (int j = 0; j < LANES; j++) lane[j] += half(h[j]) * f[j];
  }
  double sum = 0;
  for (int j = 0; j < LANES; j++) sum += lane[j];
  for (; i < n; i++) {
    uint16_t h;
    float f;
    memcpy(&h, a + 2 * (size_t)i, sizeof h);
    memcpy(&f, b + 4 * (size_t)i, sizeof f);
    sum += half(h) * f;
  }
  sqlite3_result_double(ctx, sum);
}

int ondol_add_cosine(sqlite3 *db) {
  return sqlite3_create_function_v2(db, "ondol_dot", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, 0, dot, 0, 0, 0);
}
