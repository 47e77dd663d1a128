-- creates: configuration_change
-- Which piece of configuration each of the last versions has changed, so that other nodes read only that. A version without row here was written
-- by an earlier program, or by a move of a tenant: then everything is read.
CREATE TABLE configuration_change (
    version bigint NOT NULL,
    kind    text   COLLATE "C" NOT NULL, -- endpoint, source, policy or key
    id      text   COLLATE "C" NOT NULL,
    PRIMARY KEY (version, kind, id)
);
