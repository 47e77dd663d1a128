-- cost: journal heavy: rewrites rows of journal
-- What the tables say about the other files, so that a start refuses files of another moment.
-- generation: drawn for the journal that is needed.
-- frame: the last batch in the tables that this journal had as a frame.
-- alone: up to this batch the file of the tables had everything without SQLite's log.
-- until: where in the file of data the last write ends that rows or frames may refer to; 0: unknown.
-- The numbers but for key and generation have 2^62 added. So the row has always the same size, and is
-- readable in a page of which a loss of power has let one half be written.
ALTER TABLE journal ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE journal ADD COLUMN frame INTEGER NOT NULL DEFAULT 0x4000000000000000;
ALTER TABLE journal ADD COLUMN alone INTEGER NOT NULL DEFAULT 0x4000000000000000;
ALTER TABLE journal ADD COLUMN until INTEGER NOT NULL DEFAULT 0x4000000000000000;
UPDATE journal SET number = number + 0x4000000000000000;
