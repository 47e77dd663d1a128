-- creates: tenant target kind event hour source_block pending lane finished delivered_outcome
-- creates: target_outcome attempt ending redelivery mark letter tally ledger total_hour total_day
-- creates: total_type replay replay_progress replay_item configuration endpoint policy source
-- creates: event_type api_key access_record standing audit document answer known known_key
-- creates: known_moved aside journal hole id_key data_key
-- The tables of an embedded database.
--
-- Times are microseconds since 1970, hours and days count from 1970 too. Words of a fixed set
-- (statuses, triggers, …) are small numbers. seq is a row id: of an event, or of a
-- delivery, whose row moves from pending to finished and keeps it. A column without a comment is
-- the field of that name in the Go types.

-- Names that rows repeat are stored once, and rows have their numbers. No number is used again,
-- because history refers to it.
CREATE TABLE tenant (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE target (
    number   INTEGER PRIMARY KEY,
    endpoint TEXT    NOT NULL UNIQUE,
    purged   INTEGER NOT NULL DEFAULT 0 -- the highest row id of its deliveries that were purged
);

-- What an event is: whose, of which type, and through which source it came (empty: the API). So a
-- list of a source's events is a list of some kinds.
CREATE TABLE kind (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    type   TEXT NOT NULL,
    source TEXT NOT NULL,
    UNIQUE (tenant, type, source)
);
CREATE INDEX kind_source ON kind (source) WHERE source <> '';

-- Append-only. The deliveries created with the event have the row ids first, first+1, …: made of
-- them.
CREATE TABLE event (
    seq          INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL,
    kind         INTEGER NOT NULL,
    key          TEXT    NOT NULL,
    hash         INTEGER NOT NULL, -- of the key; 0: there is no key
    accepted     INTEGER NOT NULL,
    occurred     INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    made         INTEGER NOT NULL,
    content_type TEXT,             -- NULL: JSON
    metadata     BLOB,
    packed       INTEGER NOT NULL, -- how data is compressed
    sum          INTEGER NOT NULL, -- checksum of everything that was published
    data         BLOB,             -- or where it is in the file of data
    intake       BLOB              -- how it came in; last, so that reading the rest does not read it
);
-- Ids are unique in a tenant. The one writer looks for the tenant's id before it adds an event,
-- so the index need not know tenants; it admits no id twice of a kind.
CREATE UNIQUE INDEX event_id ON event (id, kind);

-- Indexes for lists begin with the block of a row id: 4096 row ids each. So new entries of all kinds
-- and keys go to the same few pages. An index by kind or key alone would be written in another page
-- for each event, 8 KiB of log every time. The price: a list looks into one block after the other.
CREATE INDEX event_kind ON event (seq >> 12, kind);
CREATE INDEX event_key  ON event (seq >> 12, hash) WHERE hash <> 0;

-- The events accepted in an hour have row ids between these two, so a question about a time is one
-- about row ids.
CREATE TABLE hour (hour INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL);

-- The blocks in which a source has events, so that a list of them looks into no others.
CREATE TABLE source_block (source TEXT NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (source, block)) WITHOUT ROWID;

-- Unfinished deliveries: few, small and updated. Everything that an attempt changes is here.
CREATE TABLE pending (
    seq       INTEGER PRIMARY KEY,
    target    INTEGER NOT NULL,
    event     INTEGER NOT NULL,
    tenant    INTEGER NOT NULL,
    head      INTEGER NOT NULL,           -- 1: nothing in its lane is before it
    blocked   INTEGER NOT NULL,           -- 1: it is a head, and an operator has to act
    due       INTEGER,                    -- of a head that is not blocked; of a leased one: when the lease ends
    anchor    INTEGER,                    -- of a head: when its schedule began
    position  INTEGER NOT NULL,           -- in its lane; 0: it is in none
    attempts  INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    replay_of INTEGER NOT NULL,           -- row id of the delivery that it repeats; 0: none
    "trigger",
    code,
    lane      TEXT,
    reason    TEXT,
    wide      INTEGER,                    -- when its last attempt was recorded, if that failed because of the endpoint, not of the event
    outcome   INTEGER NOT NULL DEFAULT 0, -- of its last attempt
    -- The lease of a head. It is in this row because whatever grants or ends a lease writes the row
    -- anyway, and because a finished delivery has no lease then.
    token     TEXT,                       -- NULL: it is not leased
    consumer  TEXT,
    scheduled INTEGER,                    -- when it was due
    granted   INTEGER,
    kind      INTEGER NOT NULL            -- of its event, so that counting by type does not read the event
);
CREATE INDEX pending_due ON pending (target, due, seq, blocked, event, lane, position, attempts, anchor, created, "trigger")
    WHERE head = 1;
CREATE INDEX pending_lane ON pending (target, lane, position) WHERE position > 0;
CREATE UNIQUE INDEX pending_token ON pending (token) WHERE token IS NOT NULL;
CREATE INDEX pending_leased ON pending (target, due) WHERE token IS NOT NULL;

-- The last position given in each lane. It outlives the pending deliveries of the lane.
CREATE TABLE lane (
    target INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    last   INTEGER NOT NULL,
    PRIMARY KEY (target, key)
) WITHOUT ROWID;

-- Append-only: finished deliveries.
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
    last      BLOB,             -- the last attempt, or its number in the table ending
    outcome   INTEGER NOT NULL  -- status code and class of the last attempt, and the reason code
);
-- The outcomes of undelivered deliveries stand side by side; status 3 is delivered.
CREATE INDEX finished_target ON finished (seq >> 12, target, outcome);
CREATE INDEX finished_undelivered ON finished (target, status) WHERE status <> 3;
CREATE INDEX finished_outcome ON finished (target, status, outcome) WHERE status <> 3;

-- The outcomes that occur among the delivered deliveries of a block, and of a target: few rows, and
-- lists by outcome look nowhere else.
CREATE TABLE delivered_outcome (outcome INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (outcome, block)) WITHOUT ROWID;
CREATE TABLE target_outcome (outcome INTEGER NOT NULL, target INTEGER NOT NULL, PRIMARY KEY (outcome, target)) WITHOUT ROWID;

-- Append-only: attempts that did not end their delivery, in the order in which they were recorded.
CREATE TABLE attempt (
    delivery INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (delivery, number)
) WITHOUT ROWID;

-- The last attempts of deliveries that finished long after later ones were accepted, in the order in
-- which they finished. Written into finished they would split its pages.
CREATE TABLE ending (number INTEGER PRIMARY KEY, body BLOB NOT NULL);

-- The deliveries that were created after their event: by replays, and by people.
CREATE TABLE redelivery (delivery INTEGER PRIMARY KEY, event INTEGER NOT NULL);
CREATE INDEX redelivery_event ON redelivery (event);

-- What was noted on a delivery after it had finished. It does not change the delivery's result.
CREATE TABLE mark (
    delivery       INTEGER PRIMARY KEY,
    note           TEXT    NOT NULL DEFAULT '',
    discarded_at   INTEGER,
    discard_reason TEXT    NOT NULL DEFAULT '',
    replayed_at    INTEGER,
    replayed_by    TEXT    NOT NULL DEFAULT '',
    replayed_as    INTEGER NOT NULL DEFAULT 0, -- row id of the delivery that repeats it
    replay_result                              -- the status of that one
);

-- Dead letters about which nothing was done: neither discarded nor repeated with success. So a list
-- of them passes no others. Rows come and go with those of finished, and with
-- marks, by the triggers. The tally has their number.
CREATE TABLE letter (
    target INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    PRIMARY KEY (target, seq)
) WITHOUT ROWID;

-- The row of the tally may not be there yet: a transaction writes it last. It is not an upsert,
-- because the statement behind a trigger overrules what one does with a conflict.
CREATE TRIGGER letter_added AFTER INSERT ON letter BEGIN
    INSERT INTO tally (target, tenant, status, n) SELECT NEW.target, NEW.tenant, 1, 0
        WHERE NOT EXISTS (SELECT 1 FROM tally WHERE target = NEW.target AND tenant = NEW.tenant AND status = 1);
    UPDATE tally SET letters = letters + 1 WHERE target = NEW.target AND tenant = NEW.tenant AND status = 1;
END;

CREATE TRIGGER letter_removed AFTER DELETE ON letter BEGIN
    UPDATE tally SET letters = letters - 1 WHERE target = OLD.target AND tenant = OLD.tenant AND status = 1;
END;

CREATE TRIGGER letter_noted AFTER INSERT ON mark WHEN NEW.discarded_at IS NOT NULL OR NEW.replay_result IS 3 BEGIN
    DELETE FROM letter WHERE target = (SELECT target FROM finished WHERE seq = NEW.delivery) AND seq = NEW.delivery;
END;

-- A delivery that loses its successful repetition is a dead letter again.
CREATE TRIGGER letter_changed AFTER UPDATE ON mark BEGIN
    DELETE FROM letter WHERE (NEW.discarded_at IS NOT NULL OR NEW.replay_result IS 3)
        AND target = (SELECT target FROM finished WHERE seq = NEW.delivery) AND seq = NEW.delivery;
    INSERT INTO letter SELECT target, seq, tenant FROM finished f WHERE seq = NEW.delivery AND status = 4
        AND NEW.discarded_at IS NULL AND NEW.replay_result IS NOT 3
        AND NOT EXISTS (SELECT 1 FROM letter l WHERE l.target = f.target AND l.seq = f.seq); -- not OR IGNORE, which an upsert overrules
END;

-- How many deliveries exist. The rows of status 1 (pending) have more: how many were ever created,
-- how many are in letter, and the totals of the latest hour in which something happened.
CREATE TABLE tally (
    target  INTEGER NOT NULL,
    tenant  INTEGER NOT NULL,
    status  INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    letters INTEGER NOT NULL DEFAULT 0,
    made    INTEGER NOT NULL DEFAULT 0,
    hour    INTEGER,
    totals  BLOB,                      -- a grapnel.Totals
    PRIMARY KEY (target, tenant, status)
) WITHOUT ROWID;

-- One row: how many deliveries were purged, and the highest row ids in use at the last purge, so
-- that row ids go on from there even if no row is left.
CREATE TABLE ledger (purged INTEGER NOT NULL, event INTEGER NOT NULL, delivery INTEGER NOT NULL);
INSERT INTO ledger VALUES (0, 0, 0);

-- The totals of past hours, and of past days whose hours were merged; body is a grapnel.Totals.
-- Target 0 stands for all targets of a tenant.
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

-- The same by event type. The empty type has all types that are not told apart.
CREATE TABLE total_type (
    whole  INTEGER NOT NULL, -- 0: an hour; 1: a day
    hour   INTEGER NOT NULL, -- of a day: its first
    tenant INTEGER NOT NULL,
    type   TEXT    NOT NULL,
    body   BLOB    NOT NULL,
    PRIMARY KEY (whole, hour, tenant, type)
) WITHOUT ROWID;

-- Replays: few. body is the JSON of a grapnel.Replay as a person has created or changed it.
CREATE TABLE replay (
    number   INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    tenant   TEXT    NOT NULL,
    endpoint TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    active   INTEGER NOT NULL, -- 1: running or paused
    revision INTEGER NOT NULL,
    body     BLOB    NOT NULL
);
CREATE INDEX replay_tenant   ON replay (tenant, id);
CREATE INDEX replay_endpoint ON replay (endpoint, id);
CREATE INDEX replay_active   ON replay (id) WHERE active = 1;

-- The progress of a replay, which changes with each of its deliveries that finishes: so it is small,
-- and not in the row above, whose body may be long.
CREATE TABLE replay_progress (
    replay    INTEGER PRIMARY KEY,
    up_to     INTEGER NOT NULL, -- row id of the newest delivery when it was created
    cursor    INTEGER NOT NULL, -- row id of the last delivery that it has examined
    started   INTEGER NOT NULL,
    done      INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    run       INTEGER NOT NULL -- failures in a row
);

-- What replays created, and the results. It is retained for longer than the deliveries.
CREATE TABLE replay_item (
    made     INTEGER PRIMARY KEY, -- row id of the repetition
    replay   INTEGER NOT NULL,
    original INTEGER NOT NULL,
    created  INTEGER NOT NULL,    -- when the original was created
    at       INTEGER NOT NULL,    -- when the repetition was
    status
);
CREATE UNIQUE INDEX replay_item_original ON replay_item (replay, original);

-- The configuration. body is the JSON of the object; version counts all changes.
CREATE TABLE configuration (version INTEGER NOT NULL);
INSERT INTO configuration VALUES (1);
CREATE TABLE endpoint (
    id       TEXT PRIMARY KEY,
    tenant   TEXT NOT NULL,
    revision INTEGER NOT NULL,
    deleted  INTEGER NOT NULL, -- 1: marked as deleted
    body     BLOB NOT NULL,
    queue    TEXT              -- the name of a queue that is not marked as deleted
);
CREATE UNIQUE INDEX endpoint_queue ON endpoint (tenant, queue) WHERE queue IS NOT NULL;
CREATE TABLE policy     (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
CREATE TABLE source     (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
CREATE TABLE event_type (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
CREATE TABLE api_key    (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE access_record (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, body BLOB NOT NULL);

-- The health of endpoints. body is the JSON of a policy.Standing; number rises with each change.
CREATE TABLE standing (endpoint TEXT PRIMARY KEY, number INTEGER NOT NULL, body BLOB NOT NULL);

-- Append-only: who did what. Lists are of one endpoint, of one delivery, of one tenant or of all; at
-- finds an entry that exists already. Entries are rare, so four indexes are no burden.
CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,
    tenant   TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    verb     TEXT    NOT NULL,
    endpoint TEXT,             -- NULL: it is not about one
    delivery TEXT,             -- likewise
    reason   TEXT    NOT NULL
);
CREATE INDEX audit_at       ON audit (at);
CREATE INDEX audit_tenant   ON audit (tenant);
CREATE INDEX audit_endpoint ON audit (endpoint) WHERE endpoint IS NOT NULL;
CREATE INDEX audit_delivery ON audit (delivery) WHERE delivery IS NOT NULL;

-- Small records that the hot path never reads. tenant is empty for the operator's own. Lists follow
-- document_id, or the primary key for one tenant.
CREATE TABLE document (
    tenant   TEXT    NOT NULL,
    kind     TEXT    NOT NULL,
    id       TEXT    NOT NULL,
    revision INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);
CREATE INDEX document_id ON document (kind, id, tenant);
CREATE INDEX document_at ON document (kind, at);

-- Answers to calls with an idempotency key.
CREATE TABLE answer (
    key         TEXT    PRIMARY KEY,
    fingerprint BLOB    NOT NULL,
    expires     INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    body        BLOB
);
CREATE INDEX answer_expires ON answer (expires);

-- The dedupe keys of events, and the answers given for them. They outlive the events. Rows are
-- appended, and deleted in about the same order.
CREATE TABLE known (
    seq      INTEGER PRIMARY KEY, -- of the event
    key      BLOB    NOT NULL,    -- a hash of the source and the dedupe key
    sum      BLOB    NOT NULL,
    until    INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    made     INTEGER NOT NULL,
    event    TEXT    NOT NULL
);
CREATE INDEX known_until ON known (until);

-- The index of these keys, for events up to known_moved.seq. Entries of expired keys
-- stay; those before swept were removed. Ten million take 200 MB.
CREATE TABLE known_key (
    prefix INTEGER NOT NULL, -- of the key
    seq    INTEGER NOT NULL,
    PRIMARY KEY (prefix, seq)
) WITHOUT ROWID;
CREATE TABLE known_moved (seq INTEGER NOT NULL, swept INTEGER NOT NULL);
INSERT INTO known_moved VALUES (0, 0);

-- Requests to sources that were set aside. Lists are of a source, of a tenant or of all, for one
-- reason or for each of them.
CREATE TABLE aside (
    number       INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    tenant       TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    why          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    event        TEXT,             -- NULL: it conflicts with none
    content_type TEXT    NOT NULL,
    size         INTEGER NOT NULL, -- of the body, as it came
    intake       BLOB    NOT NULL,
    packed       INTEGER NOT NULL, -- how the body is compressed
    sum          INTEGER NOT NULL, -- of everything but the intake, which has its own
    body         BLOB
);
CREATE INDEX aside_source ON aside (source, why, id);
CREATE INDEX aside_tenant ON aside (tenant, why, id);
CREATE INDEX aside_why    ON aside (why, id);
CREATE INDEX aside_at     ON aside (at);

-- One row: what the tables know of the files beside them, so that a start refuses files of another
-- moment. The numbers but for key and generation have 2^62 added. So the row always has the same
-- size, and stays readable in a page of which a loss of power has let one half be written.
CREATE TABLE journal (
    key        INTEGER NOT NULL, -- part of the checksum of each frame, so that no other database's journal is taken for this one
    number     INTEGER NOT NULL, -- of the last batch that is in the tables
    needed     INTEGER NOT NULL, -- 1: the journal may have later batches, which are acknowledged
    data       INTEGER NOT NULL, -- 1: events may refer to the file of data
    generation INTEGER NOT NULL, -- drawn for the journal that is needed
    frame      INTEGER NOT NULL, -- the last batch in the tables that this journal had as a frame
    alone      INTEGER NOT NULL, -- up to this batch the file of the tables had everything without SQLite's log
    until      INTEGER NOT NULL  -- where in the file of data the last write ends that rows or frames may refer to; 0: unknown
);
INSERT INTO journal VALUES (random(), 1 << 62, 0, 0, 0, 1 << 62, 1 << 62, 1 << 62);

-- Parts of the file of data whose events were purged. A part stays until it has become a hole.
CREATE TABLE hole (at INTEGER PRIMARY KEY, until INTEGER NOT NULL);

-- One row: the key with which row ids are encrypted in the ids of deliveries.
CREATE TABLE id_key (secret BLOB NOT NULL);
INSERT INTO id_key VALUES (randomblob(32));

-- The data keys of a sealed database, each wrapped by a master key. Deleting a tenant's row destroys
-- what it has sealed. The operator's own rows have the key of the empty tenant.
CREATE TABLE data_key (
    tenant  TEXT PRIMARY KEY,
    master  TEXT NOT NULL, -- id of the master key
    wrapped BLOB NOT NULL
);
