-- The full-text index over chunks; rowid is chunks.id. It keeps no text of its
-- own (content=''): rows are deleted by number, so a row can never be taken out
-- under other words than it was put in, and passages are marked from the chunk.
CREATE VIRTUAL TABLE passages USING fts5 (
  name,    -- title and path of the document
  heading, -- headings above the passage
  body,    -- the passage
  content = '', contentless_delete = 1, detail = full,
  tokenize = 'porter ondol'
)
