-- creates: mark total_hour total_day ledger
-- cost: tally heavy: reads all of tally
-- What has been noted on a delivery since it was over. It changes nothing about what became of it.
CREATE TABLE mark (
    delivery       INTEGER PRIMARY KEY,
    note           TEXT    NOT NULL DEFAULT '',
    discarded_at   INTEGER,
    discard_reason TEXT    NOT NULL DEFAULT '',
    replayed_at    INTEGER,
    replayed_by    TEXT    NOT NULL DEFAULT '',
    replayed_as    INTEGER NOT NULL DEFAULT 0,
    replay_result
);

-- What happened in an hour that is over, and what happened in a day whose hours are not kept any more; body is a grapnel.Totals. Target 0 stands
-- for all of a tenant.
CREATE TABLE total_hour (
    hour   INTEGER NOT NULL,
    target INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (hour, target, tenant)
) WITHOUT ROWID;
CREATE TABLE total_day (
    target INTEGER NOT NULL,
    day    INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (target, day, tenant)
) WITHOUT ROWID;

-- In rows of what is pending: how many deliveries were ever made, and the totals of the latest hour in which something happened.
ALTER TABLE tally ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tally ADD COLUMN hour INTEGER;
ALTER TABLE tally ADD COLUMN totals BLOB;
INSERT INTO tally (target, tenant, status, n, made) SELECT target, tenant, 1, 0, sum(n) FROM tally WHERE true GROUP BY target, tenant
    ON CONFLICT (target, tenant, status) DO UPDATE SET made = excluded.made;

-- One row. How many deliveries are gone; the highest numbers that were given when something was removed last, so that numbers go on
-- from there even if nothing is left.
CREATE TABLE ledger (purged INTEGER NOT NULL, event INTEGER NOT NULL, delivery INTEGER NOT NULL);
INSERT INTO ledger VALUES (0, 0, 0);
