-- Event ids are unique in a tenant. Until now they were unique among all tenants.
--
-- No row is read or rewritten. Days that have events keep their index of ids alone. The next days'
-- tables, which are empty, get an index of ids and tenants, and numbers go on in the first of them.
-- A day may begin early, because its table may have ids that tell the day before (mayHave).
-- So this step only waits until nobody else writes, and until nobody reads the tables of events.
SELECT pg_advisory_xact_lock(1735553134, 4), pg_advisory_xact_lock(1735553134, 1); -- lockDays, lockConfiguration

-- The tenant of the kind; '' in rows from before this step, which are found by their kind.
ALTER TABLE event ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';

-- Takes the place of event_name, which stays for the events that it names until they are deleted.
CREATE TABLE event_named (id text COLLATE "C" NOT NULL, tenant text COLLATE "C" NOT NULL, seq bigint NOT NULL, PRIMARY KEY (id, tenant));
CREATE INDEX event_named_seq ON event_named (seq);
CREATE OR REPLACE FUNCTION name_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO event_named (id, tenant, seq)
        VALUES (NEW.id, coalesce(nullif(NEW.tenant, ''), (SELECT tenant FROM kind WHERE number = NEW.kind), ''), NEW.seq);
    RETURN NULL;
END $$;

-- Earlier programs that still run name no tenant.
CREATE FUNCTION tenant_of_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant := coalesce((SELECT tenant FROM kind WHERE number = NEW.kind), '');
    RETURN NEW;
END $$;

-- Lets ids be unique by tenant in one day's table. It reads all of that table, to which nobody can
-- write meanwhile.
CREATE FUNCTION event_ids_by_tenant(day text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE UNIQUE INDEX %1$s_whose ON %1$s (id, tenant)', day);
    EXECUTE format('CREATE TRIGGER whose BEFORE INSERT ON %s FOR EACH ROW WHEN (NEW.tenant = '''')
        EXECUTE FUNCTION tenant_of_event()', day);
    EXECUTE format('DROP INDEX IF EXISTS %s_id', day);
END $$;

DO $$
DECLARE
    today bigint := (SELECT last_value >> 36 FROM event_number); -- 0: the program that takes this step begins a day
    days  bigint[];
    day   bigint;
BEGIN
    SELECT array_agg(to_date(right(c.relname, 8), 'YYYYMMDD') - date '1970-01-01') INTO days
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'event'::regclass AND c.relname ~ '^event_\d{8}$';
    -- If nobody could make the next day's tables, today's index is made anew, although that reads
    -- all of today's events.
    FOREACH day IN ARRAY coalesce(days, '{}') LOOP
        IF day > today OR day = today AND NOT today + 1 = ANY(days) THEN
            PERFORM event_ids_by_tenant('event_' || to_char(date '1970-01-01' + day::int, 'YYYYMMDD'));
        END IF;
    END LOOP;
    IF today + 1 = ANY(days) THEN
        PERFORM setval('delivery_number', (today + 1) << 36, false) FROM delivery_number WHERE last_value < (today + 1) << 36;
        PERFORM setval('event_number', (today + 1) << 36, false);
    END IF;
END $$;
