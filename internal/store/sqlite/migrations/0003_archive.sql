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

-- What happened in an hour, and what happened in a day whose hours are not kept any more; body is a grapnel.Totals. Target 0 stands
-- for all of a tenant. Hours come first in the key: a transaction writes those of one hour, which then lie beside each other.
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

-- One row. How many deliveries were ever made, and how many of them are gone; the highest numbers that were given when something was
-- removed last, so that numbers go on from there even if nothing is left.
CREATE TABLE ledger (made INTEGER NOT NULL, purged INTEGER NOT NULL, event INTEGER NOT NULL, delivery INTEGER NOT NULL);
INSERT INTO ledger SELECT ifnull(sum(n), 0), 0, 0, 0 FROM tally;
