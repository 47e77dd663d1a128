-- creates: source kind_with_source source_block known known_key known_moved aside
-- cost: kind cuts: drops kind
-- cost: endpoint heavy: reads all of endpoint; nobody can write to it meanwhile
-- cost: event: locks event briefly
-- Where events come in that others send. body is the JSON of a grapnel.Source.
CREATE TABLE source (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));

-- The name of a queue, while it is not marked as deleted.
ALTER TABLE endpoint ADD COLUMN queue TEXT;
CREATE UNIQUE INDEX endpoint_queue ON endpoint (tenant, queue) WHERE queue IS NOT NULL;

-- The source that an event came in through is a part of its kind: an event costs nothing more for it, and a list of a source's events is one
-- of some kinds.
CREATE TABLE kind_with_source (number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL,
    UNIQUE (tenant, type, source));
INSERT INTO kind_with_source SELECT number, tenant, type, '' FROM kind;
DROP TABLE kind;
ALTER TABLE kind_with_source RENAME TO kind;
CREATE INDEX kind_source ON kind (source) WHERE source <> '';

-- In which blocks there are events of a source, so that a list of them looks into no others.
CREATE TABLE source_block (source TEXT NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (source, block)) WITHOUT ROWID;

-- How an event came in (intake.go). It stands behind the data, so that who does not ask for it does not read it.
ALTER TABLE event ADD COLUMN intake BLOB;

-- What events are known by, and what was answered for them; it outlives them. Rows are appended, and gone in about the same order.
CREATE TABLE known (
    seq      INTEGER PRIMARY KEY, -- of the event
    key      BLOB    NOT NULL,    -- a hash of the source and what it is known by there
    sum      BLOB    NOT NULL,
    until    INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    made     INTEGER NOT NULL,
    event    TEXT    NOT NULL
);
CREATE INDEX known_until ON known (until);

-- The index of keys, as far as events have come there (recent.go): up to seq. Entries of events that are not known any more stay; those
-- before swept were removed. Ten million take 200 MB.
CREATE TABLE known_key (
    prefix INTEGER NOT NULL, -- of the key
    seq    INTEGER NOT NULL,
    PRIMARY KEY (prefix, seq)
) WITHOUT ROWID;
CREATE TABLE known_moved (seq INTEGER NOT NULL, swept INTEGER NOT NULL);
INSERT INTO known_moved VALUES (0, 0);

-- Requests that were set aside. Lists are of a source, of a tenant or of all, for one reason or for each of them.
CREATE TABLE aside (
    number       INTEGER PRIMARY KEY,
    id           TEXT    NOT NULL UNIQUE,
    tenant       TEXT    NOT NULL,
    source       TEXT    NOT NULL,
    why          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    event        TEXT,             -- NULL: it is in conflict with none
    content_type TEXT    NOT NULL,
    size         INTEGER NOT NULL, -- of the body, as it came
    intake       BLOB    NOT NULL,
    packed       INTEGER NOT NULL, -- how the body is compressed
    sum          INTEGER NOT NULL, -- of all but the intake, which has its own
    body         BLOB
);
CREATE INDEX aside_source ON aside (source, why, id);
CREATE INDEX aside_tenant ON aside (tenant, why, id);
CREATE INDEX aside_why    ON aside (why, id);
CREATE INDEX aside_at     ON aside (at);
