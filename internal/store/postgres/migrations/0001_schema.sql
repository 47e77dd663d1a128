-- creates: target kind event event_name lane pending lease finished attempt redelivery mark tally
-- creates: ledger total total_type replay replay_progress replay_item configuration
-- creates: configuration_change endpoint policy source event_type api_key access_record standing
-- creates: audit document answer known aside shard node peer id_key data_key
-- The tables of a database that several nodes share.
--
-- Times are microseconds since 1970. Texts compare byte by byte. seq is a row id: of an event, or of
-- a delivery, whose row moves from pending to finished and keeps it. A column without a comment is
-- the field of that name in the Go types.

-- Names that rows repeat are stored once, and rows have their numbers. No number is used again,
-- because history refers to it. No row has kind 0 or target 0 (constraints `named`): no query would
-- find it.
CREATE TABLE target (
    number   integer  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint text     COLLATE "C" NOT NULL UNIQUE,
    shard    smallint NOT NULL, -- the hash of the endpoint's id, which decides which node owns its deliveries
    purged   bigint   NOT NULL DEFAULT 0 -- the highest row id of its deliveries that were purged
);
CREATE INDEX target_shard ON target (shard);

-- What an event is: whose, of which type, and through which source it came (empty: the API).
CREATE TABLE kind (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    type   text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    UNIQUE (tenant, type, source)
);

-- Row ids of events and deliveries. They are drawn while the lanes are locked, so in a lane they
-- rise with the positions.
CREATE SEQUENCE event_number;
CREATE SEQUENCE delivery_number;

-- Events, finished deliveries and attempts are in one table per day, which is dropped as a whole. A
-- row id says its day: day D since 1970 has those from D * 2^36 on. The program creates the tables
-- of a day before it draws row ids from it.

-- Append-only. The deliveries created with the event have row ids from first to last; others may have
-- row ids between them.
CREATE TABLE event (
    seq          bigint   PRIMARY KEY,
    id           text     COLLATE "C" NOT NULL,
    tenant       text     COLLATE "C" NOT NULL, -- that of the kind
    kind         integer  NOT NULL CONSTRAINT named CHECK (kind > 0),
    key          text     COLLATE "C" NOT NULL,
    accepted     bigint   NOT NULL,
    occurred     bigint   NOT NULL,
    first        bigint   NOT NULL,
    last         bigint   NOT NULL,
    made         integer  NOT NULL, -- deliveries created with the event
    content_type text     NOT NULL,
    packed       smallint NOT NULL, -- how data is compressed
    sum          bigint   NOT NULL, -- checksum of everything that was published
    metadata     bytea,
    data         bytea,
    intake       bytea              -- how it came in
) PARTITION BY RANGE (seq);
CREATE INDEX event_kind ON event (kind, seq);
CREATE INDEX event_key  ON event (key, seq) WHERE key <> '';
-- What pays to be compressed is compressed already.
ALTER TABLE event ALTER COLUMN data SET STORAGE EXTERNAL, ALTER COLUMN metadata SET STORAGE EXTERNAL;

-- Event ids are unique in a tenant. Each day's table has an index of them. An id that begins with
-- the time of its day, or of the day before, can be in no other day's table. All other ids are here
-- as well, and so unique among each other: a trigger of each day's table adds them. A name whose
-- event is gone is of a day that was dropped.
CREATE TABLE event_name (
    id     text   COLLATE "C" NOT NULL,
    tenant text   COLLATE "C" NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (id, tenant)
);
CREATE INDEX event_name_seq ON event_name (seq);
CREATE FUNCTION name_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_name (id, tenant, seq) VALUES (NEW.id, NEW.tenant, NEW.seq);
    RETURN NULL;
END $$;

-- The last position given in each lane. It outlives the pending deliveries of the lane. A transaction
-- that changes a lane, or its pending deliveries, locks this row first: so positions follow the order
-- of commits.
CREATE TABLE lane (
    number bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target integer NOT NULL CONSTRAINT named CHECK (target > 0),
    key    text    COLLATE "C" NOT NULL,
    last   bigint  NOT NULL,
    UNIQUE (target, key)
) WITH (fillfactor = 80);

-- Unfinished deliveries: few, small and updated. Everything that an attempt changes is here, and in
-- one index besides those of the key and the lane.
CREATE TABLE pending (
    seq         bigint  PRIMARY KEY,
    target      integer NOT NULL,
    event       bigint  NOT NULL,
    kind        integer NOT NULL,
    lane        bigint  NOT NULL, -- 0: none
    position    bigint  NOT NULL,
    created     bigint  NOT NULL,
    replay_of   bigint  NOT NULL, -- row id of the delivery that it repeats; 0: none
    due         bigint,           -- of a head that is not blocked; of a leased one: when the lease ends
    anchor      bigint,           -- of a head: when its schedule began
    wide        bigint,           -- when its last attempt was recorded, if that failed because of the endpoint, not of the event
    took        bigint  NOT NULL, -- the last attempt, in nanoseconds
    attempts    integer NOT NULL,
    status_code integer NOT NULL, -- of the last attempt
    head        boolean NOT NULL, -- nothing in its lane is before it
    blocked     boolean NOT NULL, -- it is a head, and an operator has to act
    trigger     text    NOT NULL,
    class       text    NOT NULL, -- of the last attempt
    code        text    NOT NULL,
    reason      text    NOT NULL,
    CONSTRAINT named CHECK (kind > 0 AND target > 0)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 2000);
CREATE INDEX pending_due  ON pending (target, due, seq);
CREATE INDEX pending_lane ON pending (lane, position) WHERE lane <> 0;
CREATE INDEX pending_blocked ON pending (target, seq) WHERE blocked; -- few

-- The leases of consumers of queues. A lease ends when its delivery is due.
CREATE TABLE lease (
    delivery  bigint  PRIMARY KEY,
    token     text    COLLATE "C" NOT NULL UNIQUE,
    target    integer NOT NULL,
    consumer  text    COLLATE "C" NOT NULL,
    scheduled bigint  NOT NULL, -- when the delivery was due
    granted   bigint  NOT NULL
);
CREATE INDEX lease_target ON lease (target, consumer);

-- Append-only: finished deliveries. body is the last attempt.
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
    body        bytea,
    CONSTRAINT named CHECK (kind > 0 AND target > 0)
) PARTITION BY RANGE (seq);
CREATE INDEX finished_target      ON finished (target, seq);
CREATE INDEX finished_undelivered ON finished (target, status, seq) WHERE status <> 'delivered';

-- Append-only: attempts that did not end their delivery, in the order in which they were recorded.
CREATE TABLE attempt (
    delivery bigint  NOT NULL,
    number   integer NOT NULL,
    body     bytea   NOT NULL,
    PRIMARY KEY (delivery, number)
) PARTITION BY RANGE (delivery);

-- The deliveries that were created after their event: by replays, and by people.
CREATE TABLE redelivery (delivery bigint PRIMARY KEY, event bigint NOT NULL);
CREATE INDEX redelivery_event ON redelivery (event);

-- What was noted on a delivery after it had finished. It does not change the delivery's result.
CREATE TABLE mark (
    delivery       bigint PRIMARY KEY,
    note           text   NOT NULL DEFAULT '',
    discarded      bigint,
    discard_reason text   NOT NULL DEFAULT '',
    replayed       bigint,
    replayed_by    text   NOT NULL DEFAULT '',
    replayed_as    bigint NOT NULL DEFAULT 0, -- row id of the delivery that repeats it
    replay_result  text   NOT NULL DEFAULT '' -- the status of that one
);

-- How many deliveries exist. Nodes and their connections count in rows of their own (slot), so that
-- none waits for another.
CREATE TABLE tally (
    target    integer  NOT NULL,
    tenant    text     COLLATE "C" NOT NULL,
    slot      smallint NOT NULL,
    made      bigint   NOT NULL, -- ever created
    pending   bigint   NOT NULL,
    delivered bigint   NOT NULL,
    failed    bigint   NOT NULL,
    dropped   bigint   NOT NULL,
    discarded bigint   NOT NULL,
    skipped   bigint   NOT NULL,
    PRIMARY KEY (target, tenant, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- One row: how many deliveries were purged, and the highest row id among them.
CREATE TABLE ledger (purged bigint NOT NULL, newest bigint NOT NULL);
INSERT INTO ledger VALUES (0, 0);

-- What happened in an hour, or in a day whose hours were merged. The rows of past hours are merged
-- into one (slot -1).
CREATE TABLE total (
    at          bigint   NOT NULL, -- the beginning, in hours since 1970
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
    latency     bigint[] NOT NULL, -- the buckets of a grapnel.Latency, up to the last that is not zero
    counters    bigint[] NOT NULL, -- other counts that are not zero: the number of a counter, 48 bits to the left, and its count
    PRIMARY KEY (at, target, tenant, slot, whole)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX total_target ON total (target, at);

-- The same totals by event type. The empty type has all types that are not told apart.
CREATE TABLE total_type (
    at          bigint   NOT NULL,
    tenant      text     COLLATE "C" NOT NULL,
    type        text     COLLATE "C" NOT NULL,
    slot        smallint NOT NULL,
    whole       boolean  NOT NULL,
    delivered   bigint   NOT NULL,
    failed      bigint   NOT NULL,
    dropped     bigint   NOT NULL,
    discarded   bigint   NOT NULL,
    skipped     bigint   NOT NULL,
    retried     bigint   NOT NULL,
    first       bigint   NOT NULL,
    attempts    bigint   NOT NULL,
    latency     bigint[] NOT NULL,
    counters    bigint[] NOT NULL,
    PRIMARY KEY (at, tenant, type, slot, whole)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

-- Replays: few. body is the JSON of a grapnel.Replay as a person has created or changed it.
CREATE TABLE replay (
    number   bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text    COLLATE "C" NOT NULL UNIQUE,
    tenant   text    COLLATE "C" NOT NULL,
    endpoint text    COLLATE "C" NOT NULL,
    status   text    NOT NULL,
    active   boolean NOT NULL, -- running or paused
    finished bigint  NOT NULL,
    revision bigint  NOT NULL,
    body     bytea   NOT NULL
);
CREATE INDEX replay_over     ON replay (finished, id) WHERE NOT active;
CREATE INDEX replay_tenant   ON replay (tenant, id);
CREATE INDEX replay_endpoint ON replay (endpoint, id);
CREATE INDEX replay_active   ON replay (id) WHERE active;

-- The progress of a replay, which changes with each of its deliveries that finishes: so it is small,
-- and not in the row above, whose body may be long.
CREATE TABLE replay_progress (
    replay    bigint  PRIMARY KEY,
    up_to     bigint  NOT NULL, -- row id of the newest delivery when it was created
    cursor    bigint  NOT NULL, -- row id of the last delivery that it has examined
    started   integer NOT NULL,
    done      integer NOT NULL,
    delivered integer NOT NULL,
    failed    integer NOT NULL,
    run       integer NOT NULL -- failures in a row
) WITH (fillfactor = 50);

-- What replays created, and the results. It is retained for longer than the deliveries.
CREATE TABLE replay_item (
    made     bigint PRIMARY KEY, -- row id of the repetition
    replay   bigint NOT NULL,
    original bigint NOT NULL,
    created  bigint NOT NULL,    -- when the original was created
    at       bigint NOT NULL,    -- when the repetition was
    status   text   NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX replay_item_original ON replay_item (replay, original);

-- The configuration. body is the JSON of the object; version counts all changes.
CREATE TABLE configuration (version bigint NOT NULL);
INSERT INTO configuration VALUES (1);
-- Which object each of the last versions has changed, so that other nodes read only that.
CREATE TABLE configuration_change (
    version bigint NOT NULL,
    kind    text   COLLATE "C" NOT NULL, -- endpoint, source, policy, event type, key or access record
    id      text   COLLATE "C" NOT NULL,
    PRIMARY KEY (version, kind, id)
);
CREATE TABLE endpoint (
    id       text    COLLATE "C" PRIMARY KEY,
    tenant   text    COLLATE "C" NOT NULL,
    revision bigint  NOT NULL,
    deleted  boolean NOT NULL,    -- marked as deleted
    queue    text    COLLATE "C", -- the name of a queue that is not marked as deleted
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
CREATE TABLE source     (LIKE policy INCLUDING ALL);
CREATE TABLE event_type (LIKE policy INCLUDING ALL);
CREATE TABLE api_key (
    id     text  COLLATE "C" PRIMARY KEY,
    tenant text  COLLATE "C" NOT NULL,
    body   bytea NOT NULL
);
CREATE TABLE access_record (LIKE api_key INCLUDING ALL);

-- The health of endpoints. body is the JSON of a policy.Standing; number rises with each change.
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

-- Small records that the hot path never reads. tenant is empty for the operator's own. Lists follow
-- document_id, or the primary key for one tenant.
CREATE TABLE document (
    tenant   text   COLLATE "C" NOT NULL,
    kind     text   COLLATE "C" NOT NULL,
    id       text   COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    at       bigint NOT NULL,
    body     bytea  NOT NULL,
    PRIMARY KEY (tenant, kind, id)
);
CREATE INDEX document_id ON document (kind, id, tenant);
CREATE INDEX document_at ON document (kind, at);

-- Answers to calls with an idempotency key.
CREATE TABLE answer (
    key         text    COLLATE "C" PRIMARY KEY,
    fingerprint bytea   NOT NULL,
    expires     bigint  NOT NULL,
    status      integer NOT NULL,
    body        bytea
);
CREATE INDEX answer_expires ON answer (expires, key);

-- The dedupe keys of events, and the answers given for them. They outlive the events.
CREATE TABLE known (
    key      bytea  PRIMARY KEY, -- SHA-256 of the source and the dedupe key
    seq      bigint NOT NULL,    -- of the event
    sum      bytea  NOT NULL,
    until    bigint NOT NULL,
    accepted bigint NOT NULL,
    made     integer NOT NULL,
    event    text   NOT NULL
);
CREATE INDEX known_until ON known (until, seq);

-- Requests to sources that were set aside.
CREATE TABLE aside (
    id           text     COLLATE "C" PRIMARY KEY,
    tenant       text     COLLATE "C" NOT NULL,
    source       text     COLLATE "C" NOT NULL,
    why          text     NOT NULL,
    at           bigint   NOT NULL,
    event        text     NOT NULL,
    content_type text     NOT NULL,
    size         integer  NOT NULL, -- of the body, as it came
    packed       smallint NOT NULL, -- how the body is compressed
    sum          bigint   NOT NULL, -- of everything but the intake, which has its own
    intake       bytea    NOT NULL,
    body         bytea
);
CREATE INDEX aside_source ON aside (source, id);
CREATE INDEX aside_tenant ON aside (tenant, id);
CREATE INDEX aside_at     ON aside (at, id);

-- Which node owns which endpoints: always 256 shards. Each time a node takes a shard its epoch rises.
-- An owner's write holds the shard's row (FOR KEY SHARE) until it is committed, so no node can take
-- the shard (FOR UPDATE) before that, and the owner cannot write after it. Prolonging a lease waits
-- for neither.
CREATE TABLE shard (
    number smallint    PRIMARY KEY,
    epoch  bigint      NOT NULL DEFAULT 0,
    owner  text        COLLATE "C" NOT NULL DEFAULT '',
    until  timestamptz NOT NULL DEFAULT '-infinity' -- by the clock of the database
) WITH (fillfactor = 50);
INSERT INTO shard (number) SELECT generate_series(0, 255);

-- The nodes that use the database.
CREATE TABLE node (
    id       text        COLLATE "C" PRIMARY KEY,
    address  text        NOT NULL,
    draining boolean     NOT NULL,
    seen     timestamptz NOT NULL,
    version  bigint      NOT NULL DEFAULT 0, -- of the configuration that it has applied, for nodes that cannot ask it
    fingerprint text     NOT NULL DEFAULT '' -- of the certificate with which it proves to other nodes that it is this one
) WITH (fillfactor = 50);

-- One row: with this nodes prove to each other that they share the database. Two random identifiers
-- have 244 bits that nobody can guess.
CREATE TABLE peer (secret text NOT NULL);
INSERT INTO peer (secret) VALUES (gen_random_uuid()::text || gen_random_uuid()::text);

-- One row: the key with which row ids are encrypted in the ids of deliveries.
CREATE TABLE id_key (secret bytea NOT NULL);
INSERT INTO id_key (secret) VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));

-- The data keys of a sealed database, each wrapped by a master key. Deleting a tenant's row destroys
-- what it has sealed. The operator's own rows have the key of the empty tenant.
CREATE TABLE data_key (
    tenant  text PRIMARY KEY,
    master  text  NOT NULL, -- id of the master key
    wrapped bytea NOT NULL
);
