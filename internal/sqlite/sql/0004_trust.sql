-- What is known of engines: what they answer when they are well, which texts
-- they are not given again, and what was kept of the moments they went wrong.
-- Texts appear as their SHA-256 alone. Fingerprints stand as names, because
-- an engine may be known here that made no vector yet.

CREATE TABLE canaries (
  fingerprint TEXT    NOT NULL,
  text        BLOB    NOT NULL, -- SHA-256
  kind        TEXT    NOT NULL CHECK (kind IN ('self', 'cpu')), -- trust.ReferenceKind; the same for one fingerprint
  made        INTEGER NOT NULL, -- nanoseconds since 1970 UTC; likewise
  vector      BLOB    NOT NULL, -- single-precision floats, little-endian
  PRIMARY KEY (fingerprint, text)
) STRICT;

CREATE TABLE quarantine (
  id          INTEGER PRIMARY KEY AUTOINCREMENT, -- the oldest go first
  fingerprint TEXT    NOT NULL,
  text        BLOB    NOT NULL, -- SHA-256
  reason      TEXT    NOT NULL, -- trust.Reason
  tokens      INTEGER NOT NULL, -- 0 = not counted
  at          INTEGER NOT NULL, -- nanoseconds since 1970 UTC
  UNIQUE (fingerprint, text)
) STRICT;

CREATE TABLE evidence (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  body TEXT    NOT NULL -- trust.Evidence as JSON
) STRICT;
