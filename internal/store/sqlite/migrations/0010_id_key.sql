-- creates: id_key
-- Ids of deliveries tell no row ids any more: they are made with a key of the database.
--
-- One row. plain is the highest row id of a delivery that may be found by an id with the row id in
-- clear, as they were before; 0: there has been no delivery.
CREATE TABLE id_key (secret BLOB NOT NULL, plain INTEGER NOT NULL DEFAULT 0);
INSERT INTO id_key (secret) VALUES (randomblob(32));
UPDATE id_key SET plain = max(coalesce((SELECT max(seq) FROM pending), 0), coalesce((SELECT max(seq) FROM finished), 0));
