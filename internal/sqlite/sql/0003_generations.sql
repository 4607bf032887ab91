-- A fingerprint becomes a generation of vectors: building, ready, active or
-- retired. See docs/adr/0005-generations.md.

ALTER TABLE fingerprints RENAME TO generations;
ALTER TABLE generations ADD COLUMN state TEXT NOT NULL DEFAULT 'building' CHECK (state IN ('building', 'ready', 'active', 'retired'));
ALTER TABLE generations ADD COLUMN model TEXT NOT NULL DEFAULT '';     -- name, for people
ALTER TABLE generations ADD COLUMN build TEXT NOT NULL DEFAULT '';     -- of the engine
ALTER TABLE generations ADD COLUMN recipe TEXT NOT NULL DEFAULT '';    -- how to start this engine again, in the app's words
ALTER TABLE generations ADD COLUMN completed INTEGER;                  -- when no text was missing for the first time
ALTER TABLE generations ADD COLUMN activated INTEGER;                  -- when it became active the last time
ALTER TABLE generations ADD COLUMN retired INTEGER;                    -- since when another one is active
ALTER TABLE generations ADD COLUMN used INTEGER NOT NULL DEFAULT 0;    -- when an engine of it was seen last
ALTER TABLE generations ADD COLUMN vectors INTEGER NOT NULL DEFAULT 0; -- rows of it in vectors; the triggers below count
ALTER TABLE generations ADD COLUMN embedded INTEGER NOT NULL DEFAULT 0; -- those of them whose text a chunk holds

-- One row: how many texts a chunk holds.
CREATE TABLE tally (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  texts INTEGER NOT NULL
) STRICT;

-- What was there is taken for what it was used as: the newest, with all before it retired.
UPDATE generations SET used = created, state = 'retired', retired = created;
UPDATE generations SET state = 'active', retired = NULL, activated = created WHERE id = (SELECT max(id) FROM generations);
UPDATE generations SET
  vectors = (SELECT count(*) FROM vectors v WHERE v.id >= generations.id << 40 AND v.id < (generations.id + 1) << 40),
  embedded = (SELECT count(*) FROM texts t JOIN vectors v ON v.id = (generations.id << 40) + t.id WHERE t.orphaned IS NULL);
UPDATE generations SET completed = created WHERE embedded > 0 AND embedded = (SELECT count(*) FROM texts WHERE orphaned IS NULL);
INSERT INTO tally (id, texts) SELECT 1, count(*) FROM texts WHERE orphaned IS NULL;

CREATE UNIQUE INDEX generations_active ON generations (state) WHERE state = 'active';

-- The figures change in the statement that changes what they count.
CREATE TRIGGER vectors_added AFTER INSERT ON vectors BEGIN
  UPDATE generations SET vectors = vectors + 1,
    embedded = embedded + EXISTS (SELECT 1 FROM texts WHERE id = NEW.id & 0xFFFFFFFFFF AND orphaned IS NULL)
    WHERE id = NEW.id >> 40;
END;

CREATE TRIGGER vectors_removed AFTER DELETE ON vectors BEGIN
  UPDATE generations SET vectors = vectors - 1,
    embedded = embedded - EXISTS (SELECT 1 FROM texts WHERE id = OLD.id & 0xFFFFFFFFFF AND orphaned IS NULL)
    WHERE id = OLD.id >> 40;
END;

CREATE TRIGGER texts_added AFTER INSERT ON texts WHEN NEW.orphaned IS NULL BEGIN
  UPDATE tally SET texts = texts + 1;
END;

-- A text that a chunk holds is never deleted: chunks refer to it.
CREATE TRIGGER texts_orphaned_changed AFTER UPDATE OF orphaned ON texts WHEN (OLD.orphaned IS NULL) <> (NEW.orphaned IS NULL) BEGIN
  UPDATE tally SET texts = texts + CASE WHEN NEW.orphaned IS NULL THEN 1 ELSE -1 END;
  UPDATE generations SET embedded = embedded + CASE WHEN NEW.orphaned IS NULL THEN 1 ELSE -1 END
    WHERE EXISTS (SELECT 1 FROM vectors WHERE vectors.id = (generations.id << 40) + NEW.id);
END;
