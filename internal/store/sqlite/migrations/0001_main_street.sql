-- creates: tenant kind target event hour pending lane finished attempt redelivery tally configuration endpoint policy api_key answer
-- Times are microseconds since 1970. Words of a fixed set (statuses, triggers, …) are the small numbers of words.go.

-- Names that rows repeat are kept once and stand in rows as numbers. Numbers are never used again: history refers to them.
CREATE TABLE tenant (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE kind   (number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, type TEXT NOT NULL, UNIQUE (tenant, type));
CREATE TABLE target (number INTEGER PRIMARY KEY, endpoint TEXT NOT NULL UNIQUE);

-- Append-only. The deliveries that acceptance made have the numbers first, first+1, …: made of them.
CREATE TABLE event (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL,
    kind         INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    hash         INTEGER NOT NULL, -- of the key; 0: it has none
    accepted     INTEGER NOT NULL,
    occurred     INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    made         INTEGER NOT NULL,
    content_type TEXT,             -- NULL: JSON
    metadata     BLOB,
    packed       INTEGER NOT NULL, -- how data is compressed
    sum          INTEGER NOT NULL, -- of everything that was published
    data         BLOB
);
CREATE UNIQUE INDEX event_id ON event (id);

-- Indexes that lists use begin with the block that a number is in, 4096 numbers each. New entries then all go to the same few
-- pages. An index by kind or key alone would be written at a place of its own for each event, 8 KiB to the log every time; the
-- price is that a list looks into one block after the other.
CREATE INDEX event_kind ON event (seq >> 12, kind);
CREATE INDEX event_key  ON event (seq >> 12, hash) WHERE hash <> 0;

-- The numbers of the events accepted in an hour lie between these two, so that a question about a time is one about numbers.
CREATE TABLE hour (hour INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL);

-- Hot and small: what is not final. Everything that an attempt changes is here.
CREATE TABLE pending (
    seq       INTEGER PRIMARY KEY,
    target    INTEGER NOT NULL,
    event     INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    head      INTEGER NOT NULL,
    blocked   INTEGER NOT NULL,
    due       INTEGER,             -- of a head that is not blocked
    anchor    INTEGER,             -- of a head
    position  INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    replay_of INTEGER NOT NULL,
    "trigger",
    code,
    lane      TEXT,
    reason    TEXT
);
CREATE INDEX pending_due ON pending (target, due, seq, blocked, event, lane, position, attempts, anchor, created, "trigger")
    WHERE head = 1;
CREATE INDEX pending_lane ON pending (target, lane, position) WHERE position > 0;

-- The position given last in each lane. It outlives what waits in the lane.
CREATE TABLE lane (
    target INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    last   INTEGER NOT NULL,
    PRIMARY KEY (target, key)
) WITHOUT ROWID;

-- Append-only: deliveries that are over. last is the attempt that ended it.
CREATE TABLE finished (
    seq       INTEGER PRIMARY KEY,
    target    INTEGER NOT NULL,
    event     INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    status    INTEGER NOT NULL,
    position  INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    finished  INTEGER NOT NULL,
    replay_of INTEGER NOT NULL,
    code,
    reason    TEXT,
    last      BLOB
);
CREATE INDEX finished_target ON finished (seq >> 12, target);
CREATE INDEX finished_undelivered ON finished (target, status) WHERE status <> 3;

-- Append-only: attempts that did not end their delivery, in the order in which they were recorded.
CREATE TABLE attempt (
    delivery INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (delivery, number)
) WITHOUT ROWID;

-- The deliveries that acceptance did not make.
CREATE TABLE redelivery (delivery INTEGER PRIMARY KEY, event INTEGER NOT NULL);
CREATE INDEX redelivery_event ON redelivery (event);

-- How many deliveries there are.
CREATE TABLE tally (
    target INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    status INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (target, tenant, status)
) WITHOUT ROWID;

CREATE TABLE configuration (version INTEGER NOT NULL);
INSERT INTO configuration VALUES (1);
CREATE TABLE endpoint (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, deleted INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE policy   (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
CREATE TABLE api_key  (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, body BLOB NOT NULL);

-- Answers to calls with an idempotency key.
CREATE TABLE answer (
    key         TEXT    PRIMARY KEY,
    fingerprint BLOB    NOT NULL,
    expires     INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    body        BLOB
);
CREATE INDEX answer_expires ON answer (expires);
