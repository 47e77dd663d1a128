-- creates: id_key
-- Ids of deliveries tell no row ids any more: they are made with a key of the database.
--
-- One row. plain is the highest row id of a delivery that may be found by an id with the row id in
-- clear. Programs of before may still run and give such ids out, so it is a day (days.go) above the
-- highest in use. 0: there has been no delivery.
CREATE TABLE id_key (secret bytea NOT NULL, plain bigint NOT NULL DEFAULT 0);
INSERT INTO id_key (secret) VALUES (decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
UPDATE id_key SET plain = (SELECT CASE WHEN is_called OR last_value > 1 THEN last_value + (1::bigint << 36) ELSE 0 END FROM delivery_number);
