-- The journal: what changed and a person could care about, each change told in
-- the transaction that made it, where there is one.
CREATE TABLE events (
  seq  INTEGER PRIMARY KEY AUTOINCREMENT, -- rises by 1 with each row, in the order of commits; never used twice
  at   INTEGER NOT NULL,                  -- when it happened, nanoseconds since 1970 UTC
  kind TEXT    NOT NULL,                  -- event.Kind
  args TEXT    NOT NULL DEFAULT '{}'      -- JSON object of texts, the placeholders of the kind's sentence
) STRICT;

-- Scanning comes and goes; what is news is that a folder went away or came back.
ALTER TABLE folders ADD COLUMN settled TEXT NOT NULL DEFAULT 'watching'; -- the last state but for scanning
