-- creates: total_type
-- cost: pending: locks pending briefly
-- Totals by event type. body is a grapnel.Totals. whole is 0 for an hour and 1 for a day, whose hour
-- is then its first. The empty type has all types that are not told apart.
CREATE TABLE total_type (
    whole  INTEGER NOT NULL,
    hour   INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    type   TEXT    NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (whole, hour, tenant, type)
) WITHOUT ROWID;

-- The kind of a delivery's event, so that counting by type does not read the event. 0: the row is
-- from before this step.
ALTER TABLE pending ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;
