-- cost: pending heavy: reads all of pending; nobody can write to it meanwhile
-- A head that a consumer has: what is not in its row anyway. When the lease ends is when the head is due. It is here and not in a table of
-- its own because whatever grants or ends a lease writes this row at the same time, and because what is gone has none then.
ALTER TABLE pending ADD COLUMN token TEXT;        -- NULL: nobody has it
ALTER TABLE pending ADD COLUMN consumer TEXT;
ALTER TABLE pending ADD COLUMN scheduled INTEGER; -- when it was due
ALTER TABLE pending ADD COLUMN granted INTEGER;
CREATE UNIQUE INDEX pending_token ON pending (token) WHERE token IS NOT NULL;
CREATE INDEX pending_leased ON pending (target, due) WHERE token IS NOT NULL;
