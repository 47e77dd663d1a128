-- Grapnel's outbox in an SQLite database. It may be run again at any time: what is there stays.
--
-- SQLite has one writer at a time, so ids are in the order of commits, and whoever sees an id sees all lower ones.
-- AUTOINCREMENT gives no id twice, so an event that is removed leaves its id to no other one. The checks use nothing newer than
-- SQLite 3.38, because they run in the producer's library.

CREATE TABLE IF NOT EXISTS grapnel_outbox (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  type         TEXT    NOT NULL CHECK (length(type) BETWEEN 1 AND 128 AND type NOT GLOB '*[^A-Za-z0-9_.-]*'),
  key          TEXT    CHECK (length(CAST(key AS BLOB)) BETWEEN 1 AND 256),
  event_id     TEXT    NOT NULL CHECK (length(event_id) BETWEEN 1 AND 64 AND event_id NOT GLOB '*[^A-Za-z0-9_-]*'),
  data         TEXT    NOT NULL CHECK (json_valid(data)), -- its bytes are delivered as they are given here
  metadata     TEXT    CHECK (json_type(metadata) = 'object'),
  occurred_at  TEXT    NOT NULL, -- RFC 3339
  published_at INTEGER NOT NULL  -- ms since 1970
);
