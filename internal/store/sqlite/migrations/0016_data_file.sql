-- creates: hole
-- cost: journal: locks journal briefly
-- Whether rows of event refer to the file of data beside the database. Without it the database then
-- lacks what these events carry.
ALTER TABLE journal ADD COLUMN data INTEGER NOT NULL DEFAULT 0;

-- Parts of that file whose events were purged. A part stays until it has become a hole.
CREATE TABLE hole (at INTEGER PRIMARY KEY, until INTEGER NOT NULL);
