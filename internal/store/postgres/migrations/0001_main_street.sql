-- creates: target kind event lane pending lease finished attempt redelivery configuration endpoint policy source api_key answer standing audit tally total
-- Times are microseconds since 1970. Texts compare byte by byte.

-- Names that rows repeat are kept once and stand in rows as numbers. Numbers are never used again: history refers to them.
-- shard is the hash of the endpoint's id: which node owns its deliveries is decided by that.
CREATE TABLE target (
    number   integer  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint text     COLLATE "C" NOT NULL UNIQUE,
    shard    smallint NOT NULL
);
CREATE INDEX target_shard ON target (shard);
CREATE TABLE kind (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    type   text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    UNIQUE (tenant, type, source)
);

-- Numbers of events and deliveries. They are drawn while the lanes are locked, so in a lane they rise with the positions.
CREATE SEQUENCE event_number;
CREATE SEQUENCE delivery_number;

-- Append-only. The deliveries that acceptance made have numbers from first to last; others may have numbers between them.
CREATE TABLE event (
    seq          bigint   PRIMARY KEY,
    id           text     COLLATE "C" NOT NULL,
    kind         integer  NOT NULL,
    key          text     COLLATE "C" NOT NULL,
    accepted     bigint   NOT NULL,
    occurred     bigint   NOT NULL,
    first        bigint   NOT NULL,
    last         bigint   NOT NULL,
    made         integer  NOT NULL,
    content_type text     NOT NULL,
    packed       smallint NOT NULL, -- how data is compressed
    sum          bigint   NOT NULL, -- of everything that was published
    metadata     bytea,
    data         bytea,
    intake       bytea              -- how it came in
);
CREATE UNIQUE INDEX event_id ON event (id);
CREATE INDEX event_kind ON event (kind, seq);
CREATE INDEX event_key  ON event (key, seq) WHERE key <> '';
-- What pays to be compressed is compressed already.
ALTER TABLE event ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN metadata SET STORAGE EXTERNAL;

-- The position given last in each lane. It outlives what waits in the lane. Whoever changes a lane, or what waits in it, locks its
-- row first; that is what keeps positions in the order of commits.
CREATE TABLE lane (
    number bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target integer NOT NULL,
    key    text    COLLATE "C" NOT NULL,
    last   bigint  NOT NULL,
    UNIQUE (target, key)
) WITH (fillfactor = 80);

-- Hot and small: what is not final. Everything that an attempt changes is here, and it is in one index besides the key's and the lane's.
CREATE TABLE pending (
    seq         bigint  PRIMARY KEY,
    target      integer NOT NULL,
    event       bigint  NOT NULL,
    kind        integer NOT NULL,
    lane        bigint  NOT NULL, -- 0: none
    position    bigint  NOT NULL,
    created     bigint  NOT NULL,
    replay_of   bigint  NOT NULL,
    due         bigint,           -- of a head that is not blocked
    anchor      bigint,           -- of a head
    wide        bigint,           -- when its last attempt was recorded, if that failed because of its endpoint
    took        bigint  NOT NULL, -- the last attempt, in nanoseconds
    attempts    integer NOT NULL,
    status_code integer NOT NULL, -- of the last attempt
    head        boolean NOT NULL,
    blocked     boolean NOT NULL,
    trigger     text    NOT NULL,
    class       text    NOT NULL, -- of the last attempt
    code        text    NOT NULL,
    reason      text    NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 2000);
CREATE INDEX pending_due  ON pending (target, due, seq);
CREATE INDEX pending_lane ON pending (lane, position) WHERE lane <> 0;
CREATE INDEX pending_blocked ON pending (target, seq) WHERE blocked; -- few, and rarely

-- What a consumer has of a queue. When it ends is when its delivery is due.
CREATE TABLE lease (
    delivery  bigint  PRIMARY KEY,
    token     text    COLLATE "C" NOT NULL UNIQUE,
    target    integer NOT NULL,
    consumer  text    COLLATE "C" NOT NULL,
    scheduled bigint  NOT NULL,
    granted   bigint  NOT NULL
);
CREATE INDEX lease_target ON lease (target, consumer);

-- Append-only: deliveries that are over. body is the attempt that ended it.
CREATE TABLE finished (
    seq         bigint  PRIMARY KEY,
    target      integer NOT NULL,
    event       bigint  NOT NULL,
    kind        integer NOT NULL,
    lane        bigint  NOT NULL,
    position    bigint  NOT NULL,
    created     bigint  NOT NULL,
    finished    bigint  NOT NULL,
    replay_of   bigint  NOT NULL,
    took        bigint  NOT NULL,
    attempts    integer NOT NULL,
    status_code integer NOT NULL,
    status      text    NOT NULL,
    class       text    NOT NULL,
    code        text    NOT NULL,
    reason      text    NOT NULL,
    body        bytea
);
CREATE INDEX finished_target      ON finished (target, seq);
CREATE INDEX finished_undelivered ON finished (target, status, seq) WHERE status <> 'delivered';

-- Append-only: attempts that did not end their delivery, in the order in which they were recorded.
CREATE TABLE attempt (
    delivery bigint  NOT NULL,
    number   integer NOT NULL,
    body     bytea   NOT NULL,
    PRIMARY KEY (delivery, number)
);

-- The deliveries that acceptance did not make.
CREATE TABLE redelivery (delivery bigint PRIMARY KEY, event bigint NOT NULL);
CREATE INDEX redelivery_event ON redelivery (event);

-- Configuration. body is a JSON document.
CREATE TABLE configuration (version bigint NOT NULL);
INSERT INTO configuration VALUES (1);
CREATE TABLE endpoint (
    id       text    COLLATE "C" PRIMARY KEY,
    tenant   text    COLLATE "C" NOT NULL,
    revision bigint  NOT NULL,
    deleted  boolean NOT NULL,
    queue    text    COLLATE "C", -- the name of a queue, while it is not marked as deleted
    body     bytea   NOT NULL
);
CREATE UNIQUE INDEX endpoint_queue ON endpoint (tenant, queue) WHERE queue IS NOT NULL;
CREATE TABLE policy (
    id       text   COLLATE "C" PRIMARY KEY,
    tenant   text   COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    name     text   COLLATE "C" NOT NULL,
    body     bytea  NOT NULL,
    UNIQUE (tenant, name)
);
CREATE TABLE source (LIKE policy INCLUDING ALL);
CREATE TABLE api_key (
    id     text  COLLATE "C" PRIMARY KEY,
    tenant text  COLLATE "C" NOT NULL,
    body   bytea NOT NULL
);

-- Answers to calls with an idempotency key.
CREATE TABLE answer (
    key         text    COLLATE "C" PRIMARY KEY,
    fingerprint bytea   NOT NULL,
    expires     bigint  NOT NULL,
    status      integer NOT NULL,
    body        bytea
);
CREATE INDEX answer_expires ON answer (expires, key);

-- What became of endpoints. body is the JSON of a policy.Standing.
CREATE TABLE standing (endpoint text COLLATE "C" PRIMARY KEY, number bigint NOT NULL, body bytea NOT NULL);

-- Append-only: who did what.
CREATE TABLE audit (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       bigint NOT NULL,
    tenant   text   COLLATE "C" NOT NULL,
    actor    text   COLLATE "C" NOT NULL,
    verb     text   COLLATE "C" NOT NULL,
    endpoint text   COLLATE "C" NOT NULL,
    delivery text   COLLATE "C" NOT NULL,
    reason   text   COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX audit_entry ON audit (at, tenant, actor, verb, endpoint, delivery, md5(reason));
CREATE INDEX audit_tenant   ON audit (tenant, seq);
CREATE INDEX audit_endpoint ON audit (endpoint, seq) WHERE endpoint <> '';
CREATE INDEX audit_delivery ON audit (delivery, seq) WHERE delivery <> '';

-- How many deliveries there are. Nodes and their connections count in rows of their own (slot), so that none waits for another.
CREATE TABLE tally (
    target    integer  NOT NULL,
    tenant    text     COLLATE "C" NOT NULL,
    slot      smallint NOT NULL,
    made      bigint   NOT NULL,
    pending   bigint   NOT NULL,
    delivered bigint   NOT NULL,
    failed    bigint   NOT NULL,
    dropped   bigint   NOT NULL,
    discarded bigint   NOT NULL,
    skipped   bigint   NOT NULL,
    PRIMARY KEY (target, tenant, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- What happened in an hour, or in a day whose hours are not kept any more; at is its beginning in hours since 1970. latency is the row of
-- buckets of a grapnel.Latency, as far as there is something in them. Rows of hours that are over are made one (slot -1).
CREATE TABLE total (
    at          bigint   NOT NULL,
    target      integer  NOT NULL,
    tenant      text     COLLATE "C" NOT NULL,
    slot        smallint NOT NULL,
    whole       boolean  NOT NULL, -- a day
    delivered   bigint   NOT NULL,
    failed      bigint   NOT NULL,
    dropped     bigint   NOT NULL,
    discarded   bigint   NOT NULL,
    skipped     bigint   NOT NULL,
    retried     bigint   NOT NULL,
    first       bigint   NOT NULL,
    attempts    bigint   NOT NULL,
    latency     bigint[] NOT NULL,
    PRIMARY KEY (at, target, tenant, slot, whole)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX total_target ON total (target, at);
