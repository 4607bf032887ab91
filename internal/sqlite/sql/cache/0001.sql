-- The vectors of texts that clients asked for. Everything here can be computed
-- again: the file may be deleted at any time.

-- What made a vector: model, engine build, flags, dimension.
CREATE TABLE fingerprints (
  id   INTEGER PRIMARY KEY,
  name TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE vectors (
  id          INTEGER PRIMARY KEY,
  fingerprint INTEGER NOT NULL REFERENCES fingerprints (id),
  text        BLOB    NOT NULL, -- SHA-256 of the text, 32 bytes
  used        INTEGER NOT NULL, -- hours since 1970 in which it was asked for last
  tokens      INTEGER NOT NULL, -- of the text
  counted     INTEGER NOT NULL, -- 1: tokens is the engine's count of this text; 0: a share of a larger count
  embedding   BLOB    NOT NULL, -- single floats, little-endian, the very bits that the engine gave
  checksum    INTEGER NOT NULL  -- CRC-32C of all of the above but used: SQLite has none of its own
) STRICT;

CREATE UNIQUE INDEX vectors_of_text ON vectors (text, fingerprint);

-- The least recently used go first.
CREATE INDEX vectors_by_use ON vectors (used);
