-- creates: document
-- Small records that the hot path never reads. tenant is empty for the operator's own. Lists follow document_id, or the primary key
-- for one tenant.
CREATE TABLE document (tenant TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, at INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (tenant, kind, id));
CREATE INDEX document_id ON document (kind, id, tenant);
CREATE INDEX document_at ON document (kind, at);
