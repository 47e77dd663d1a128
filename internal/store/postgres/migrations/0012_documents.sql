-- creates: document
-- Small records that the hot path never reads. tenant is empty for the operator's own. Lists follow document_id, or the primary key
-- for one tenant.
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
