-- creates: total_type
-- cost: total: locks total briefly
-- What is counted besides statuses and latencies: the number of a cell (48 bits to the left) and its count, for each cell that is not zero.
ALTER TABLE total ADD COLUMN cells bigint[] NOT NULL DEFAULT '{}';

-- The same totals by event type. The empty type has all types that are not told apart.
CREATE TABLE total_type (
    at          bigint   NOT NULL,
    tenant      text     COLLATE "C" NOT NULL,
    type        text     COLLATE "C" NOT NULL,
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
    cells       bigint[] NOT NULL,
    PRIMARY KEY (at, tenant, type, slot, whole)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
