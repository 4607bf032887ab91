-- The index: folders, their documents, the passages of those, and vectors.
-- Times are nanoseconds since 1970 UTC. Hashes are SHA-256, 32 bytes.
-- The full-text table is not here: it is derived from these tables and made by
-- sql/passages.sql whenever it is missing, broken or of another definition.

CREATE TABLE folders (
  id        INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: callers keep ids
  path      BLOB    NOT NULL UNIQUE,           -- absolute, bytes as the system gave them
  path_key  TEXT    NOT NULL,                  -- path in NFC, for comparison
  state     TEXT    NOT NULL CHECK (state IN ('watching', 'scanning', 'offline', 'denied')),
  reason    TEXT    NOT NULL DEFAULT '',       -- why offline or denied
  last_scan INTEGER,                           -- end of the last complete scan; NULL before the first
  added     INTEGER NOT NULL                   -- when its owner chose it
) STRICT;

CREATE TABLE documents (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- survives a rename, never used twice
  folder_id  INTEGER NOT NULL REFERENCES folders (id) ON DELETE CASCADE,
  path       BLOB    NOT NULL,                  -- relative, slash separated, bytes as the system gave them
  path_key   TEXT    NOT NULL,                  -- path in NFC: what filters and words are compared with
  file_id    TEXT    NOT NULL,                  -- volume and inode
  size       INTEGER NOT NULL,                  -- bytes
  mtime      INTEGER NOT NULL,                  -- modification time of the file
  raw_hash   BLOB,                              -- of the bytes read last; NULL when never read
  title      TEXT    NOT NULL DEFAULT '',       -- NFC
  kind       TEXT    NOT NULL DEFAULT '',       -- document.Kind; empty when never read
  language   TEXT    NOT NULL DEFAULT '',       -- programming language, for code
  state      TEXT    NOT NULL CHECK (state IN ('found', 'embedding', 'indexed', 'skipped', 'failed')),
  reason     TEXT    NOT NULL DEFAULT '',       -- document.Reason of skipped and failed
  detail     TEXT    NOT NULL DEFAULT '',       -- the error behind reason
  tries      INTEGER NOT NULL DEFAULT 0,        -- failed attempts in a row
  due        INTEGER,                           -- found, embedding: since when it waits; failed: when it is tried again, NULL for never
  indexed    INTEGER,                           -- when it became indexed the last time
  chunks     INTEGER NOT NULL DEFAULT 0,        -- rows of it in chunks
  UNIQUE (folder_id, path)
) STRICT;

-- The ledger is read from this index alone; the indexer takes its work in its order.
CREATE INDEX documents_ledger ON documents (folder_id, state, reason, chunks);

-- A file that vanished here and turned up there is known by its file id.
CREATE INDEX documents_file ON documents (folder_id, file_id);

-- Texts that are embedded, each once, however many documents hold it.
CREATE TABLE texts (
  id       INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: it is part of vectors.id
  hash     BLOB    NOT NULL UNIQUE,           -- of heading path and passage, as the engine sees them
  orphaned INTEGER                            -- since when no chunk refers to it; NULL while one does
) STRICT;

CREATE INDEX texts_orphaned ON texts (orphaned) WHERE orphaned IS NOT NULL;

CREATE TABLE chunks (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- also the row of the full-text table; never used twice
  document_id INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
  ordinal     INTEGER NOT NULL,                  -- 0, 1, 2 … in reading order
  text_id     INTEGER NOT NULL REFERENCES texts (id),
  start       INTEGER NOT NULL,                  -- byte offsets in the document's text
  stop        INTEGER NOT NULL,
  line        INTEGER NOT NULL,                  -- 1-based
  last_line   INTEGER NOT NULL,
  tokens      INTEGER NOT NULL,                  -- as the engine counts heading path and passage
  heading     TEXT    NOT NULL,                  -- headings above it
  body        TEXT    NOT NULL                   -- the passage itself
) STRICT;

-- Both cover what a scan of vectors needs, so that it never reads passages.
CREATE UNIQUE INDEX chunks_of_document ON chunks (document_id, ordinal, text_id);
CREATE INDEX chunks_of_text ON chunks (text_id, document_id);

-- What made a vector: model, engine build, flags, dimension. Vectors of
-- different fingerprints are never compared.
CREATE TABLE fingerprints (
  id      INTEGER PRIMARY KEY,
  name    TEXT    NOT NULL UNIQUE, -- the fingerprint
  dim     INTEGER NOT NULL,        -- components of each vector
  created INTEGER NOT NULL
) STRICT;

-- One number for fingerprint and text keeps the vectors of a fingerprint
-- together and in the order in which their texts came, and needs no second index.
CREATE TABLE vectors (
  id        INTEGER PRIMARY KEY, -- fingerprints.id * 2^40 + texts.id
  embedding BLOB    NOT NULL     -- dim half-precision floats, little-endian, of norm 1
) STRICT;
