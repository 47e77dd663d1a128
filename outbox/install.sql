-- Grapnel's outbox, version 1. One function for producers, in schema grapnel:
--
--   SELECT grapnel.grapnel_publish('invoice.paid', '{"amount":100}', key => 'inv_1');
--
-- The event is part of the transaction that calls it. It may be run again at any time: what is there stays.
--
-- How order comes about. Events are written where they are published, without any lock. When the transaction commits, a deferred trigger,
-- which fires once for each transaction and not for each event, locks the places of all keys that it has published to, in one order that is
-- the same for everybody; only then it draws the transaction's number. Locks end after the transaction has become visible. So of two
-- transactions with a key in common the second one draws its number when the first one can be seen: numbers are in commit order for each
-- key, and whoever sees a number sees all lower ones of the same keys. Nothing is locked before the commit, so keys can be published to in
-- any order without a deadlock, and a long transaction keeps nobody waiting.
--
-- Locks are advisory: they leave nothing behind in tables, and no isolation level fails because of them. A key's place is one of 1024, so
-- that one transaction with a million keys needs no more locks than that. Keys that share a place wait for each other's commits, no more.

SET LOCAL client_min_messages = warning;
SELECT pg_advisory_xact_lock(1735552626, -1); -- two who install at the same time

CREATE SCHEMA IF NOT EXISTS grapnel;

CREATE TABLE IF NOT EXISTS grapnel.outbox_installation (
  single       boolean     PRIMARY KEY DEFAULT true CHECK (single),
  version      integer     NOT NULL,
  installed_at timestamptz NOT NULL DEFAULT now()
);

DO $$
BEGIN
  IF EXISTS (SELECT FROM grapnel.outbox_installation WHERE version > 1) THEN
    RAISE EXCEPTION 'the outbox in this database is version %, newer than this one, which is 1', (SELECT version FROM grapnel.outbox_installation);
  END IF;
END $$;

CREATE SEQUENCE IF NOT EXISTS grapnel.outbox_event_id;
CREATE SEQUENCE IF NOT EXISTS grapnel.outbox_commit_number;
-- Until when (milliseconds since 1970) somebody sleeps who wants to be woken. A sequence, because it is seen at once and leaves no dead rows.
CREATE SEQUENCE IF NOT EXISTS grapnel.outbox_sleeper MINVALUE 0 START 0;

-- Rows come and go. What is left of them is cleared away when there are a few thousand, however large the tables have been.
CREATE TABLE IF NOT EXISTS grapnel.outbox_event (
  batch       bigint      NOT NULL, -- the id of the first event of those that commit together
  id          bigint      NOT NULL,
  type        text        NOT NULL,
  key         text,
  event_id    text        NOT NULL,
  data        bytea       NOT NULL, -- as it was given, in UTF-8
  metadata    text,                 -- a JSON object of strings
  occurred_at timestamptz NOT NULL,
  PRIMARY KEY (batch, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.5, vacuum_truncate = false);

CREATE TABLE IF NOT EXISTS grapnel.outbox_commit (
  number       bigint      PRIMARY KEY, -- of two transactions with a key in common the one that committed first has the lower one
  batch        bigint      NOT NULL,
  committed_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0.5, vacuum_truncate = false);

-- grapnel_publish publishes an event when the transaction commits, and returns the event's id.
CREATE OR REPLACE FUNCTION grapnel.grapnel_publish(
  type        text,
  data        text,                      -- JSON; its bytes are delivered as they are given here
  key         text        DEFAULT NULL,  -- events of one key arrive in the order of their commits
  id          text        DEFAULT NULL,  -- the event's own; a new one if none is given
  metadata    text        DEFAULT NULL,  -- a JSON object of strings
  occurred_at timestamptz DEFAULT NULL   -- now, if it is not given
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  -- The transaction's batch and the places of its keys, as in '17 3 1020'. It is forgotten with the transaction, and what a savepoint
  -- takes back is taken out of it.
  state   text   := coalesce(current_setting('grapnel.outbox', true), '');
  number  bigint := nextval('grapnel.outbox_event_id');
  batch   bigint;
  place   text   := (hashtextextended(key, 0) & 1023)::text;
BEGIN
  IF type IS NULL OR octet_length(type) > 128 OR type !~ '^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64})*$' THEN
    RAISE EXCEPTION 'grapnel_publish: the type % is not made of segments of 1 to 64 characters of [A-Za-z0-9_-], joined by dots, at most 128 bytes in all', coalesce(quote_literal(type), 'NULL')
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF key IS NOT NULL AND (key = '' OR octet_length(convert_to(key, 'UTF8')) > 256 OR key ~ '[\x01-\x1f\x7f]') THEN
    RAISE EXCEPTION 'grapnel_publish: the key is not 1 to 256 bytes of text without control characters' USING ERRCODE = 'invalid_parameter_value';
  ELSIF id IS NOT NULL AND id !~ '^[A-Za-z0-9_-]{1,64}$' THEN
    RAISE EXCEPTION 'grapnel_publish: the id is not 1 to 64 characters of [A-Za-z0-9_-]' USING ERRCODE = 'invalid_parameter_value';
  ELSIF occurred_at < '0001-01-01 00:00Z' OR occurred_at >= '10000-01-01 00:00Z' THEN
    RAISE EXCEPTION 'grapnel_publish: occurred_at is not in the years 1 to 9999' USING ERRCODE = 'invalid_parameter_value';
  ELSIF data IS NULL THEN
    RAISE EXCEPTION 'grapnel_publish: data is missing' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM data::json; -- an error here is the producer's, who can do something about it; later it would be nobody's
  IF metadata IS NOT NULL AND (json_typeof(metadata::json) <> 'object' OR (
    SELECT count(*) > 32 OR bool_or(json_typeof(m.value) <> 'string' OR octet_length(m.key) > 1024 OR octet_length(m.value #>> '{}') > 1024)
    FROM json_each(metadata::json) AS m)) THEN
    RAISE EXCEPTION 'grapnel_publish: metadata is not a JSON object of at most 32 strings of at most 1024 bytes' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  id := coalesce(id, 'evt_' || lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
    || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14));
  IF state = '' THEN
    batch := number;
    state := number::text;
  ELSE
    batch := split_part(state, ' ', 1)::bigint;
  END IF;
  IF place IS NOT NULL AND position(' ' || place || ' ' IN state || ' ') = 0 THEN
    state := state || ' ' || place;
  END IF;
  PERFORM set_config('grapnel.outbox', state, true);
  INSERT INTO grapnel.outbox_event VALUES (batch, number, type, key, id, convert_to(data, 'UTF8'), metadata, coalesce(occurred_at, clock_timestamp()));
  RETURN id;
END $$;

-- outbox_number gives a transaction that is about to commit its number.
CREATE OR REPLACE FUNCTION grapnel.outbox_number() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  places text[] := string_to_array(current_setting('grapnel.outbox', true), ' ');
  place  integer;
BEGIN
  IF places[1] IS DISTINCT FROM NEW.batch::text THEN
    -- Somebody has reset it. The rows say the same, but reading them would make transactions under SERIALIZABLE fail that have nothing to do with
    -- each other.
    SELECT array_agg('' || (hashtextextended(key, 0) & 1023)) INTO places FROM grapnel.outbox_event WHERE batch = NEW.batch AND key IS NOT NULL;
    places := '{NULL}' || places;
  END IF;
  FOR place IN SELECT DISTINCT p::integer FROM unnest(places[2:]) AS p ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock(1735552626, place);
  END LOOP;
  PERFORM set_config('grapnel.outbox', '', true); -- what is published from here on is a batch of its own
  INSERT INTO grapnel.outbox_commit VALUES (nextval('grapnel.outbox_commit_number'), NEW.batch, clock_timestamp());
  -- A NOTIFY makes all commits of the database wait for each other, so there is one only while somebody sleeps. A transaction that is
  -- prepared for a later commit must not have any.
  IF (SELECT last_value FROM grapnel.outbox_sleeper) > extract(epoch FROM clock_timestamp()) * 1000
     AND current_setting('max_prepared_transactions') = '0' THEN
    PERFORM pg_notify('grapnel_outbox', '');
  END IF;
  RETURN NULL;
END $$;

REVOKE ALL ON FUNCTION grapnel.outbox_number() FROM PUBLIC; -- as a trigger of a table of somebody else's

DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'grapnel.outbox_event'::regclass AND tgname = 'outbox_number') THEN
    CREATE CONSTRAINT TRIGGER outbox_number AFTER INSERT ON grapnel.outbox_event
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.id = NEW.batch) EXECUTE FUNCTION grapnel.outbox_number();
  END IF;
END $$;

INSERT INTO grapnel.outbox_installation (version) VALUES (1) ON CONFLICT (single) DO UPDATE SET version = excluded.version;
