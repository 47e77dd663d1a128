-- creates: tenancy
-- cost: configuration: locks configuration briefly
-- cost: known: locks known briefly
-- Tenants that move from one cell to another. Whose things must not change is with the version of the configuration, which every transaction
-- that writes reads anyway, under a lock; and so is how many tenants have arrived.
ALTER TABLE configuration ADD COLUMN sealed text[] NOT NULL DEFAULT '{}', ADD COLUMN arrivals bigint NOT NULL DEFAULT 0;

-- What is known of where tenants are. Texts in shifts and before are JSON.
CREATE TABLE tenancy (
    tenant text   COLLATE "C" PRIMARY KEY,
    state  text   NOT NULL,
    move   text   NOT NULL,
    other  text   NOT NULL,
    since  bigint NOT NULL,
    shifts text   NOT NULL DEFAULT '[]', -- of numbers of deliveries, []grapnel.Shift
    before text   NOT NULL DEFAULT '',   -- the row as it was before the tenant arrived
    -- By what rows of a tenant are found whose configuration is gone.
    targets integer[] NOT NULL DEFAULT '{}',
    keys    text[]    NOT NULL DEFAULT '{}',
    first   bigint    NOT NULL DEFAULT 0, -- of its audit entries; others are about its moves
    last    bigint    NOT NULL DEFAULT 0
);

-- Whose event it was that something is known of; NULL: a program of before has written it.
ALTER TABLE known ADD COLUMN kind integer;
