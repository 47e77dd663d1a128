-- cost: node: locks node briefly
-- The version of the configuration that a node has applied, for nodes that cannot ask it.
ALTER TABLE node ADD COLUMN version bigint NOT NULL DEFAULT 0;
