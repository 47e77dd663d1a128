-- creates: replay replay_progress replay_item
-- Replays. body is the JSON of a grapnel.Replay as a person has made or changed it. Few are ever made.
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
CREATE INDEX replay_tenant   ON replay (tenant, id);
CREATE INDEX replay_endpoint ON replay (endpoint, id);
CREATE INDEX replay_active   ON replay (id) WHERE active = 1;

-- How far a replay is. Small, for it changes with every delivery that a replay has made and that ends; body above may be long.
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

-- What replays have made, and what became of it, which is told longer than the deliveries are kept.
CREATE TABLE replay_item (
    made     INTEGER PRIMARY KEY,
    replay   INTEGER NOT NULL,
    original INTEGER NOT NULL,
    created  INTEGER NOT NULL, -- the original
    at       INTEGER NOT NULL, -- the new one
    status
);
CREATE UNIQUE INDEX replay_item_original ON replay_item (replay, original);
