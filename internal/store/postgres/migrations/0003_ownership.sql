-- creates: shard node
-- Who owns which endpoints: 256 shards, for ever. Each time a shard is taken its epoch rises. A write of an owner holds the shard's row (FOR KEY
-- SHARE) while it is made, so nobody can take the shard (FOR UPDATE) before that is committed, and nobody can write after it was taken.
-- Prolonging a lease waits for neither.
CREATE TABLE shard (
    number smallint    PRIMARY KEY,
    epoch  bigint      NOT NULL DEFAULT 0,
    owner  text        COLLATE "C" NOT NULL DEFAULT '',
    until  timestamptz NOT NULL DEFAULT '-infinity' -- by the clock of the database
) WITH (fillfactor = 50);
INSERT INTO shard (number) SELECT generate_series(0, 255);

-- The nodes that are there.
CREATE TABLE node (
    id       text        COLLATE "C" PRIMARY KEY,
    address  text        NOT NULL,
    draining boolean     NOT NULL,
    seen     timestamptz NOT NULL
) WITH (fillfactor = 50);
