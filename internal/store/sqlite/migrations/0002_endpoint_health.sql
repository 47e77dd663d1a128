-- creates: standing audit
-- cost: pending: locks pending briefly
-- When the last attempt of a head was recorded, if that failed because of its endpoint and not because of what was sent.
ALTER TABLE pending ADD COLUMN wide INTEGER;

-- What became of endpoints. body is the JSON of a policy.Standing.
CREATE TABLE standing (endpoint TEXT PRIMARY KEY, number INTEGER NOT NULL, body BLOB NOT NULL);

-- Append-only: who did what. A page of entries is of one endpoint, of one delivery, of one tenant or of all; at finds the one that is
-- there already. Few entries are ever made, so four indexes are no burden.
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
