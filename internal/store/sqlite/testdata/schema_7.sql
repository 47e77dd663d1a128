-- What the program of commit 61bda6d wrote, as sqlite3 dumps it.
BEGIN TRANSACTION;
CREATE TABLE tenant (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
INSERT INTO tenant VALUES(1,'acme');
CREATE TABLE target (number INTEGER PRIMARY KEY, endpoint TEXT NOT NULL UNIQUE);
INSERT INTO target VALUES(1,'ep_a');
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
, intake BLOB);
INSERT INTO event VALUES(1,'evt_delivered',1,'evt_delivered',1523662573,1700000000000000,1700000000000000,1,1,NULL,NULL,0,1130269734,X'7b226964223a226576745f64656c697665726564227d',NULL);
INSERT INTO event VALUES(2,'evt_failed',1,'evt_failed',134496432,1700000001000000,1700000000000000,2,1,NULL,NULL,0,1307135707,X'7b226964223a226576745f6661696c6564227d',NULL);
INSERT INTO event VALUES(3,'evt_tried',1,'evt_tried',1963286509,1700000002000000,1700000000000000,3,1,NULL,NULL,0,3359551456,X'7b226964223a226576745f7472696564227d',NULL);
INSERT INTO event VALUES(4,'evt_waits',1,'evt_waits',1585651055,1700000003000000,1700000000000000,4,1,NULL,NULL,0,3883524584,X'7b226964223a226576745f7761697473227d',NULL);
CREATE TABLE hour (hour INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL);
INSERT INTO hour VALUES(472222,1,4095);
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
, wide INTEGER, outcome INTEGER NOT NULL DEFAULT 0, token TEXT, consumer TEXT, scheduled INTEGER, granted INTEGER);
INSERT INTO pending VALUES(3,1,3,1,1,0,1700003600000000,1700000002000000,1,1,1700000002000000,0,1,0,'evt_tried','',NULL,128872,NULL,NULL,NULL,NULL);
INSERT INTO pending VALUES(4,1,4,1,1,0,1700000003000000,1700000003000000,1,0,1700000003000000,0,1,0,'evt_waits',NULL,NULL,0,NULL,NULL,NULL,NULL);
CREATE TABLE lane (
    target INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    last   INTEGER NOT NULL,
    PRIMARY KEY (target, key)
) WITHOUT ROWID;
INSERT INTO lane VALUES(1,'evt_delivered',1);
INSERT INTO lane VALUES(1,'evt_failed',1);
INSERT INTO lane VALUES(1,'evt_tried',1);
INSERT INTO lane VALUES(1,'evt_waits',1);
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
, outcome INTEGER NOT NULL DEFAULT -1);
INSERT INTO finished VALUES(1,1,1,1,3,1,1,1700000000000000,1700000060000000,0,0,'',X'010202ffffddf2dfffdfdc01809c8ebb838985060000000000000090030200000001ffffddf2dfffdfdc0100',51208);
INSERT INTO finished VALUES(2,1,2,1,4,1,1,1700000001000000,1700000060000000,0,1,'exhausted',X'010202ffffddf2dfffdfdc01809c8ebb8389850600000000000000a0060c00000001ffffddf2dfffdfdc0100',102489);
CREATE TABLE attempt (
    delivery INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    PRIMARY KEY (delivery, number)
) WITHOUT ROWID;
INSERT INTO attempt VALUES(3,1,X'010202ffffddf2dfffdfdc01809c8ebb8389850600000000000000ee070e00000001ffffddf2dfffdfdc0100');
CREATE TABLE redelivery (delivery INTEGER PRIMARY KEY, event INTEGER NOT NULL);
CREATE TABLE tally (
    target INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    status INTEGER NOT NULL,
    n      INTEGER NOT NULL, made INTEGER NOT NULL DEFAULT 0, hour INTEGER, totals BLOB,
    PRIMARY KEY (target, tenant, status)
) WITHOUT ROWID;
INSERT INTO tally VALUES(1,1,1,2,4,472222,X'02020000000002060003');
INSERT INTO tally VALUES(1,1,3,1,0,NULL,NULL);
INSERT INTO tally VALUES(1,1,4,1,0,NULL,NULL);
CREATE TABLE configuration (version INTEGER NOT NULL);
INSERT INTO configuration VALUES(2);
CREATE TABLE endpoint (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, deleted INTEGER NOT NULL, body BLOB NOT NULL, queue TEXT);
INSERT INTO endpoint VALUES('ep_a','acme',1,0,X'7b224944223a2265705f61222c2254656e616e74223a2261636d65222c2255524c223a2268747470733a2f2f6578616d706c652e636f6d2f61222c224465736372697074696f6e223a22222c224576656e745479706573223a6e756c6c2c2246696c746572223a22222c22536f75726365223a22222c225175657565223a6e756c6c2c22506f6c6963794e616d65223a227374616e64617264222c22506f6c696379223a7b226e616d65223a227374616e64617264222c2274696d656f7574223a22313573222c227363686564756c65223a7b226d6f6465223a2273696e63655f70726576696f7573222c2264656c617973223a5b223073222c223573222c22356d222c2233306d222c223268222c223568222c22313068222c22313468222c22323068222c22323468225d2c227461696c223a2273746f70227d2c226a6974746572223a302e312c2273756363657373223a5b22327878225d2c22636c617373696679223a7b22343130223a2264697361626c65222c22343239223a227468726f74746c65227d2c2272657472795f6166746572223a22657874656e64222c226f6e5f657868617573746564223a22646561645f6c6574746572222c227468656e223a22616476616e6365222c2264697361626c65223a7b22636f6e7365637574697665223a302c226f66223a227374617475735f347878222c226166746572223a2231323068222c2270656e64696e67223a22686f6c64227d2c22627265616b6572223a6e756c6c2c226d61785f617474656d707473223a31302c226d61785f616765223a6e756c6c7d2c224f72646572696e67223a226b6579222c22526174654c696d6974223a6e756c6c2c224d6178436f6e63757272656e6379223a302c2248656164657273223a6e756c6c2c22466f726d6174223a22222c22537461747573223a22656e61626c6564222c2244697361626c6564526561736f6e223a22222c2244697361626c65644174223a22303030312d30312d30315430303a30303a30305a222c22437265617465644174223a22323032332d31312d31345432323a31333a32305a222c22557064617465644174223a22323032332d31312d31345432323a31333a32305a222c2244656c657465644174223a22303030312d30312d30315430303a30303a30305a222c225265766973696f6e223a312c2253656372657473223a6e756c6c7d',NULL);
CREATE TABLE policy   (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
CREATE TABLE api_key  (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE answer (
    key         TEXT    PRIMARY KEY,
    fingerprint BLOB    NOT NULL,
    expires     INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    body        BLOB
);
CREATE TABLE standing (endpoint TEXT PRIMARY KEY, number INTEGER NOT NULL, body BLOB NOT NULL);
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
CREATE TABLE ledger (purged INTEGER NOT NULL, event INTEGER NOT NULL, delivery INTEGER NOT NULL);
INSERT INTO ledger VALUES(0,0,0);
CREATE TABLE replay (
    number   INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    tenant   TEXT    NOT NULL,
    endpoint TEXT    NOT NULL,
    status   TEXT    NOT NULL,
    active   INTEGER NOT NULL, -- running or paused
    revision INTEGER NOT NULL,
    body     BLOB    NOT NULL
);
CREATE TABLE replay_progress (
    replay    INTEGER PRIMARY KEY,
    up_to     INTEGER NOT NULL,
    cursor    INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    done      INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    failed    INTEGER NOT NULL,
    run       INTEGER NOT NULL -- failures in a row
);
CREATE TABLE replay_item (
    made     INTEGER PRIMARY KEY,
    replay   INTEGER NOT NULL,
    original INTEGER NOT NULL,
    created  INTEGER NOT NULL, -- the original
    at       INTEGER NOT NULL, -- the new one
    status
);
CREATE TABLE delivered_outcome (outcome INTEGER NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (outcome, block)) WITHOUT ROWID;
INSERT INTO delivered_outcome VALUES(51208,0);
CREATE TABLE target_outcome (outcome INTEGER NOT NULL, target INTEGER NOT NULL, PRIMARY KEY (outcome, target)) WITHOUT ROWID;
INSERT INTO target_outcome VALUES(51208,1);
CREATE TABLE source (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
CREATE TABLE IF NOT EXISTS "kind" (number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL,
    UNIQUE (tenant, type, source));
INSERT INTO kind VALUES(1,'acme','invoice.paid','src_1');
CREATE TABLE known (
    seq      INTEGER PRIMARY KEY, -- of the event
    key      BLOB    NOT NULL,    -- a hash of the source and what it is known by there
    sum      BLOB    NOT NULL,
    until    INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    made     INTEGER NOT NULL,
    event    TEXT    NOT NULL
);
CREATE TABLE known_key (
    prefix INTEGER NOT NULL, -- of the key
    seq    INTEGER NOT NULL,
    PRIMARY KEY (prefix, seq)
) WITHOUT ROWID;
CREATE TABLE known_moved (seq INTEGER NOT NULL, swept INTEGER NOT NULL);
INSERT INTO known_moved VALUES(0,0);
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
CREATE UNIQUE INDEX event_id ON event (id);
CREATE INDEX event_kind ON event (seq >> 12, kind);
CREATE INDEX event_key  ON event (seq >> 12, hash) WHERE hash <> 0;
CREATE INDEX pending_due ON pending (target, due, seq, blocked, event, lane, position, attempts, anchor, created, "trigger")
    WHERE head = 1;
CREATE INDEX pending_lane ON pending (target, lane, position) WHERE position > 0;
CREATE INDEX finished_undelivered ON finished (target, status) WHERE status <> 3;
CREATE INDEX redelivery_event ON redelivery (event);
CREATE INDEX answer_expires ON answer (expires);
CREATE INDEX audit_at       ON audit (at);
CREATE INDEX audit_tenant   ON audit (tenant);
CREATE INDEX audit_endpoint ON audit (endpoint) WHERE endpoint IS NOT NULL;
CREATE INDEX audit_delivery ON audit (delivery) WHERE delivery IS NOT NULL;
CREATE INDEX replay_tenant   ON replay (tenant, id);
CREATE INDEX replay_endpoint ON replay (endpoint, id);
CREATE INDEX replay_active   ON replay (id) WHERE active = 1;
CREATE UNIQUE INDEX replay_item_original ON replay_item (replay, original);
CREATE INDEX finished_outcome ON finished (target, status, outcome) WHERE status <> 3;
CREATE INDEX finished_target ON finished (seq >> 12, target, outcome);
CREATE UNIQUE INDEX pending_token ON pending (token) WHERE token IS NOT NULL;
CREATE INDEX pending_leased ON pending (target, due) WHERE token IS NOT NULL;
CREATE UNIQUE INDEX endpoint_queue ON endpoint (tenant, queue) WHERE queue IS NOT NULL;
CREATE INDEX kind_source ON kind (source) WHERE source <> '';
CREATE INDEX known_until ON known (until);
CREATE INDEX aside_source ON aside (source, why, id);
CREATE INDEX aside_tenant ON aside (tenant, why, id);
CREATE INDEX aside_why    ON aside (why, id);
CREATE INDEX aside_at     ON aside (at);
COMMIT;
PRAGMA application_id = 1735553134;
PRAGMA user_version = 7;
