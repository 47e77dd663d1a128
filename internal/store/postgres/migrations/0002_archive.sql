-- creates: mark ledger replay replay_progress replay_item known aside
-- What has been noted on a delivery since it was over. It changes nothing about what became of it.
CREATE TABLE mark (
    delivery       bigint PRIMARY KEY,
    note           text   NOT NULL DEFAULT '',
    discarded      bigint,
    discard_reason text   NOT NULL DEFAULT '',
    replayed       bigint,
    replayed_by    text   NOT NULL DEFAULT '',
    replayed_as    bigint NOT NULL DEFAULT 0,
    replay_result  text   NOT NULL DEFAULT ''
);

-- One row: how many deliveries are gone, and the highest number among them.
CREATE TABLE ledger (purged bigint NOT NULL, newest bigint NOT NULL);
INSERT INTO ledger VALUES (0, 0);

-- Replays. body is the JSON of a grapnel.Replay as a person has made or changed it. Few are ever made.
CREATE TABLE replay (
    number   bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       text    COLLATE "C" NOT NULL UNIQUE,
    tenant   text    COLLATE "C" NOT NULL,
    endpoint text    COLLATE "C" NOT NULL,
    status   text    NOT NULL,
    active   boolean NOT NULL,
    finished bigint  NOT NULL,
    revision bigint  NOT NULL,
    body     bytea   NOT NULL
);
CREATE INDEX replay_over     ON replay (finished, id) WHERE NOT active;
CREATE INDEX replay_tenant   ON replay (tenant, id);
CREATE INDEX replay_endpoint ON replay (endpoint, id);
CREATE INDEX replay_active   ON replay (id) WHERE active;

-- How far a replay is. Small, for it changes with every delivery that a replay has made and that ends; body above may be long.
CREATE TABLE replay_progress (
    replay    bigint  PRIMARY KEY,
    up_to     bigint  NOT NULL,
    cursor    bigint  NOT NULL,
    started   integer NOT NULL,
    done      integer NOT NULL,
    delivered integer NOT NULL,
    failed    integer NOT NULL,
    run       integer NOT NULL -- failures in a row
) WITH (fillfactor = 50);

-- What replays have made, and what became of it, which is told longer than the deliveries are kept.
CREATE TABLE replay_item (
    made     bigint PRIMARY KEY,
    replay   bigint NOT NULL,
    original bigint NOT NULL,
    created  bigint NOT NULL, -- the original
    at       bigint NOT NULL, -- the new one
    status   text   NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX replay_item_original ON replay_item (replay, original);

-- What events are known by, and what was answered for them; it outlives them.
CREATE TABLE known (
    key      bytea  PRIMARY KEY, -- SHA-256 of the source and what it is known by there
    seq      bigint NOT NULL,    -- of the event
    sum      bytea  NOT NULL,
    until    bigint NOT NULL,
    accepted bigint NOT NULL,
    made     integer NOT NULL,
    event    text   NOT NULL
);
CREATE INDEX known_until ON known (until, seq);

-- Requests that were set aside.
CREATE TABLE aside (
    id           text     COLLATE "C" PRIMARY KEY,
    tenant       text     COLLATE "C" NOT NULL,
    source       text     COLLATE "C" NOT NULL,
    why          text     NOT NULL,
    at           bigint   NOT NULL,
    event        text     NOT NULL,
    content_type text     NOT NULL,
    size         integer  NOT NULL, -- of the body, as it came
    packed       smallint NOT NULL,
    sum          bigint   NOT NULL,
    intake       bytea    NOT NULL,
    body         bytea
);
CREATE INDEX aside_source ON aside (source, id);
CREATE INDEX aside_tenant ON aside (tenant, id);
CREATE INDEX aside_at     ON aside (at, id);
