-- creates: event_type
-- Types of events that tenants have registered. body is the JSON of a grapnel.EventType, with all versions of its schema.
CREATE TABLE event_type (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, revision INTEGER NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    UNIQUE (tenant, name));
