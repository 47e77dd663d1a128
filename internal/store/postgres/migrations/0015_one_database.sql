-- cost: tenancy cuts: drops tenancy
-- cost: configuration cuts: drops or renames a part of configuration
-- cost: total cuts: drops or renames a part of total
-- cost: total_type cuts: drops or renames a part of total_type
-- A tenant stays in its database, so nothing is stored of moves. The counts besides statuses and latencies have their name.
DROP TABLE tenancy;
ALTER TABLE configuration DROP COLUMN sealed, DROP COLUMN arrivals;
ALTER TABLE total RENAME COLUMN cells TO counters;
ALTER TABLE total_type RENAME COLUMN cells TO counters;
