-- creates: event_type configuration_change_type
-- Types of events that tenants have registered. body is the JSON of a grapnel.EventType, with all versions of its schema.
CREATE TABLE event_type (
    id       text   COLLATE "C" PRIMARY KEY,
    tenant   text   COLLATE "C" NOT NULL,
    revision bigint NOT NULL,
    name     text   COLLATE "C" NOT NULL,
    body     bytea  NOT NULL,
    UNIQUE (tenant, name)
);

-- Which event type each of the last versions has changed, as configuration_change has it for the other kinds. A program from before this
-- step fails on a kind that it does not know, and reads everything if a version has no row in configuration_change: so it runs on.
CREATE TABLE configuration_change_type (
    version bigint NOT NULL,
    id      text   COLLATE "C" NOT NULL,
    PRIMARY KEY (version, id)
);
