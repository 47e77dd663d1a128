-- creates: journal
-- The position of the tables in the journal beside the database. number is that of the last
-- transaction whose changes are in the tables. needed is 1 while the journal may have frames with
-- higher numbers: without them the database lacks acknowledged writes. key is part of the checksum
-- of each frame, so that no other database's journal is taken for this one.
CREATE TABLE journal (
    key    INTEGER NOT NULL,
    number INTEGER NOT NULL,
    needed INTEGER NOT NULL
);
INSERT INTO journal (key, number, needed) VALUES (random(), 0, 0);
